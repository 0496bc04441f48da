//! Changes during a run: run until a time, change something, continue.
//!
//! Events at the time of a change precede it. Changes draw no random numbers, so runs remain
//! functions of their inputs.

use super::{NoSuchNode, Simulation};
use crate::event::Surroundings;
use crate::host::Host;
use crate::trace::Observer;
use crate::wired::{ChangeError, LinkConfig};
use crate::{LinkId, NodeId};

impl<H: Host, O: Observer> Simulation<H, O> {
    /// Returns a changeable link's current configuration.
    ///
    /// # Errors
    /// If the link cannot change.
    pub fn link_config(&self, link: LinkId) -> Result<LinkConfig, ChangeError> {
        self.network.config(link)
    }

    /// Changes a link's rate, delay, loss or queue.
    ///
    /// The frame in transmission keeps the old rate, frames on the wire their arrival times, and
    /// waiting frames their place, even beyond the new limit.
    ///
    /// ```
    /// use std::time::Duration;
    /// # use conche_netsim::{Simulation, NodeId, host::{Host, Port, Received}};
    /// # struct Idle;
    /// # impl Host for Idle {
    /// #     type Timer = ();
    /// #     fn start(&mut self, _: &mut Port<'_, ()>) {}
    /// #     fn timer(&mut self, _: &mut Port<'_, ()>, (): ()) {}
    /// #     fn receive(&mut self, _: &mut Port<'_, ()>, _: Received<'_>) {}
    /// #     fn wake(&mut self, _: &mut Port<'_, ()>) {}
    /// # }
    /// use conche_netsim::wired::{LinkConfig, Topology};
    /// use conche_netsim::{BitRate, Instant};
    ///
    /// let mut net = Topology::new();
    /// let (a, b) = (net.node("a"), net.node("b"));
    /// let link = net.link("a-b", a, b, LinkConfig { rate: Some(BitRate::kbit(60)), ..LinkConfig::default() });
    /// net.allow_changes(link);
    ///
    /// let mut sim = Simulation::new(&net, 1, ())?;
    /// sim.attach(a, Idle)?;
    /// sim.run_until(Instant::from_millis(10_000));
    /// let slower = LinkConfig { rate: Some(BitRate::kbit(15)), ..sim.link_config(link)? };
    /// sim.change_link(link, slower)?;
    /// sim.run_until(Instant::from_millis(20_000));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If the link cannot change, or the configuration is invalid.
    pub fn change_link(&mut self, link: LinkId, config: LinkConfig) -> Result<(), ChangeError> {
        self.network.change(&mut around!(self), link, config)
    }

    /// Takes a link down or up.
    ///
    /// A link that goes down drops waiting frames, the one in transmission, and new ones, like a
    /// removed interface; frames on the wire arrive. A radio hop that is down only stops filling
    /// its station's queue.
    ///
    /// # Errors
    /// If the link is of another topology, or has a queue and cannot change.
    pub fn set_link_up(&mut self, link: LinkId, up: bool) -> Result<(), ChangeError> {
        self.network.set_up(&mut around!(self), link, up)
    }

    /// Cuts off or reconnects a node.
    ///
    /// Packets from, to and through a cut-off node are dropped. Its host runs on; its radio station
    /// still acknowledges, and transmits frames of [`Port::transmit`](crate::host::Port::transmit).
    ///
    /// # Errors
    /// If the node is of another topology.
    pub fn set_node_up(&mut self, node: NodeId, up: bool) -> Result<(), NoSuchNode> {
        self.world.wake_ups.get(node.index()).ok_or(NoSuchNode(node))?;
        self.network.cut_off(node, !up);
        Ok(())
    }

    /// Replaces and starts a node's host; returns the old one.
    ///
    /// The old host's timers and wake-ups are cancelled; the new one receives its packets in
    /// transit and outcomes of its frames. A restarted endpoint needs a new seed, or it repeats its
    /// tokens and message IDs.
    ///
    /// # Errors
    /// If the node is of another topology.
    pub fn reboot(&mut self, node: NodeId, host: H) -> Result<Option<H>, NoSuchNode> {
        let before = self.hosts.get_mut(node.index()).and_then(Option::take);
        self.attach(node, host)?;
        self.timers.cancel_all(node);
        // Scheduled events then have no effect.
        let _ = self.world.wake_ups[node.index()].set(None);
        if self.started {
            self.with_host(node, |host, port| host.start(port));
        }
        Ok(before)
    }
}
