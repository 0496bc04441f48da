//! Roles of observers and their servers, and records.

use std::collections::{BTreeMap, HashMap};

use conche_netsim::rng::{Entity, Purpose};
use conche_netsim::{Instant, NodeId};
use conche_proto::Reliability;

use super::error::TrialError;
use super::notifications::Notifications;
use super::pace;
use super::plan::{OF_SERVERS, Plan, Role};
use super::record::{Flow, Observed};
use crate::scenario::{Observe, Traffic};
use crate::workload::{self, Publisher, Subscriber, Topic};

impl Plan<'_> {
    pub(super) fn plan_observations(
        &mut self,
        place: usize,
        traffic: &Traffic,
        observe: Observe,
        flows: impl Iterator<Item = Flow>,
    ) -> Result<(), TrialError> {
        let (start, body) = (self.start_of(traffic), self.body(traffic.response));
        let reliability = match observe {
            Observe::Confirmable => Some(Reliability::Confirmable),
            Observe::EachFifthConfirmable => None,
        };
        let request_bytes = self.datagram_bytes(&body);
        for flow in flows {
            let (client, server) = (flow.client, flow.server);
            self.control_of(client, None)?;
            let mut random = self.stream_of(Entity::Node(server), Purpose::named("phase"));
            let role = self.roles.entry(server).or_default();
            if role.is_open_sender {
                return Err(TrialError::ServerWithoutEndpoint);
            }
            if role.control != OF_SERVERS {
                return Err(TrialError::ServerSends);
            }
            let number = role.topics.iter().position(|(of, _)| *of == place).unwrap_or_else(|| {
                let pace = pace::of(&traffic.pace, start, &[], &mut random);
                let stop = traffic.stop.map(|stop| Instant::ZERO + stop.0);
                let to = workload::Flow::to(NodeId::BROADCAST);
                let changes = workload::Flow { start, stop, pace, body: body.clone(), ..to };
                role.topics.push((place, Topic { changes, reliability }));
                role.topics.len() - 1
            });
            let number = u32::try_from(number).unwrap_or(u32::MAX);
            if role.observers.insert(client, number).is_some() {
                return Err(TrialError::ObservedTwice);
            }
            self.roles.entry(client).or_default().observes.push((self.flows.len(), server));
            let observed = Some(Observed::default());
            self.flows.push(Flow { control: OF_SERVERS, start, request_bytes, observed, ..flow });
        }
        Ok(())
    }
}

impl Role {
    pub(super) fn publisher(&self) -> Option<Publisher> {
        let topics: Vec<Topic> = self.topics.iter().map(|(_, topic)| topic.clone()).collect();
        (!topics.is_empty()).then(|| Publisher::new(topics, self.observers.clone()))
    }

    /// Registers before its first topic changes.
    pub(super) fn subscriber(&self, flows: &[Flow]) -> Option<Subscriber> {
        let within = self.observes.iter().map(|(place, _)| flows[*place].start - Instant::ZERO).min()?;
        Some(Subscriber::new(self.observes.iter().map(|(_, server)| *server).collect(), within))
    }
}

/// A restarted node has a role per life.
#[derive(Debug, Default)]
pub(super) struct ObserverRoles {
    pub(super) publishers: Vec<(NodeId, Publisher)>,
    pub(super) subscribers: Vec<(NodeId, Subscriber)>,
}

impl ObserverRoles {
    pub(super) fn measure(self, flows: &mut [Flow], roles: &BTreeMap<NodeId, Role>, notifications: Notifications) {
        let mut places: HashMap<(NodeId, NodeId), usize> = HashMap::new();
        for (node, role) in roles {
            places.extend(role.observes.iter().map(|(place, server)| ((*server, *node), *place)));
        }
        for (server, publisher) in self.publishers {
            for (client, number) in &roles[&server].observers {
                let Some(flow) = places.get(&(server, *client)).map(|place| &mut flows[*place]) else { continue };
                let changes = &publisher.changes()[*number as usize];
                flow.tally.generated += changes.len() as u64;
                flow.observed.iter_mut().for_each(|observed| observed.changes.extend(changes));
            }
            for client in publisher.given_up() {
                let Some(flow) = places.get(&(server, *client)).map(|place| &mut flows[*place]) else { continue };
                flow.tally.opened += 1;
                flow.tally.failed += 1;
            }
        }
        for (client, subscriber) in self.subscribers {
            for ((place, _), received) in roles[&client].observes.iter().zip(subscriber.received()) {
                let flow = &mut flows[*place];
                flow.arrivals.extend(received.iter().map(|received| received.at));
                flow.observed.iter_mut().for_each(|observed| observed.received.extend(received));
            }
        }
        for (server, client, exchange) in notifications.into_acknowledged() {
            let Some(flow) = places.get(&(server, client)).map(|place| &mut flows[*place]) else { continue };
            flow.tally.opened += 1;
            flow.tally.answered += 1;
            flow.exchanges.push(exchange);
        }
    }
}
