//! Changes during a run, by whoever drives it: run until a time, change something, go on.
//!
//! What happens at the very time of a change happens before it. Changes draw nothing, so a run with changes is as much a
//! function of its inputs as one without.

use thiserror::Error;

use super::{NoSuchNode, Simulation};
use crate::host::Host;
use crate::trace::Observer;
use crate::wired::{LinkConfig, Surroundings, TopologyError};
use crate::{LinkId, NodeId};

/// Why a link does not change.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum ChangeError {
    /// It is of another topology.
    #[error("{0} is not a link of this topology")]
    NoSuchLink(LinkId),
    /// It was not said before the run that it changes, or it is a hop of a radio network.
    #[error("{0} cannot change: only a link can that was named to Topology::changing before the run")]
    Fixed(LinkId),
    /// The new configuration makes no sense.
    #[error(transparent)]
    Config(#[from] TopologyError),
}

impl<H: Host, O: Observer> Simulation<H, O> {
    /// How a link behaves now, if it can change.
    ///
    /// # Errors
    /// If it cannot.
    pub fn link_config(&self, link: LinkId) -> Result<LinkConfig, ChangeError> {
        self.network.config(link)
    }

    /// Lets a link behave otherwise from now on: another rate, delay, loss or queue.
    ///
    /// What is being transmitted is transmitted at the old rate, and what is on the wire arrives when it would have. What
    /// waits stays, even if the queue has become too short for it.
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
    /// net.changing(link);
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
    /// If the link cannot change, or the configuration makes no sense.
    pub fn change_link(&mut self, link: LinkId, config: LinkConfig) -> Result<(), ChangeError> {
        self.network.change(&mut around!(self), link, config)
    }

    /// Takes a link down, or up again.
    ///
    /// What waits for a link that goes down, or is being transmitted, is dropped, as what comes while it is down: its
    /// interface is gone. What is on the wire arrives. A hop of a radio network can be taken down as well; then nothing more
    /// enters its station's queue.
    ///
    /// # Errors
    /// If the link is of another topology, or has a queue and cannot change.
    pub fn set_link_up(&mut self, link: LinkId, up: bool) -> Result<(), ChangeError> {
        self.network.set_up(&mut around!(self), link, up)
    }

    /// Cuts a node off, or ends that. Packets from, to and through a node that is cut off are dropped; its host goes on. Its
    /// station in a radio network still acknowledges, and transmits the frames that the host hands to it.
    ///
    /// # Errors
    /// If the node is of another topology.
    pub fn set_node_up(&mut self, node: NodeId, up: bool) -> Result<(), NoSuchNode> {
        self.world.wake_ups.get(node.index()).ok_or(NoSuchNode(node))?;
        self.network.cut_off(node, !up);
        Ok(())
    }

    /// Puts another host on a node during the run, and starts it; the answer is the one before, with what it has gathered.
    ///
    /// The timers and wake-ups of the old host die with it. What is on its way to the node arrives at the new one, and so
    /// does the word of how frames ended that the old one had handed to a radio. An endpoint that starts anew needs another seed
    /// than the one before, or it repeats its tokens and message IDs.
    ///
    /// # Errors
    /// If the node is of another topology.
    pub fn reboot(&mut self, node: NodeId, host: H) -> Result<Option<H>, NoSuchNode> {
        let before = self.hosts.get_mut(node.index()).and_then(Option::take);
        self.attach(node, host)?;
        self.timers.cancel_all(node);
        // Events that are scheduled for it find that nobody wants to be woken.
        let _ = self.world.wake_ups[node.index()].set(None);
        if self.started {
            self.with_host(node, |host, port| host.start(port));
        }
        Ok(before)
    }
}
