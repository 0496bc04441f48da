//! A client that repeats a request and keeps nothing, and a server that responds immediately.

use std::time::Duration;

use conche_netsim::NodeId;
use conche_netsim::node::{Application, Context};
use conche_proto::codec::{Body, Code};
use conche_proto::{Event, Request, Response};

pub enum Host {
    Client(Client),
    Server { response: Body },
}

pub struct Client {
    server: NodeId,
    /// Time from one request to the next. `None`: a request follows the end of the previous one.
    period: Option<Duration>,
    busy: bool,
    responses: u32,
}

impl Host {
    pub fn client(server: NodeId, period: Option<Duration>) -> Self {
        Self::Client(Client { server, period, busy: false, responses: 0 })
    }

    pub fn server(message_bytes: usize) -> Self {
        let payload = vec![b'.'; message_bytes.saturating_sub(5)];
        Self::Server { response: Body::builder().payload(payload).build().expect("a short payload") }
    }

    /// Returns the number of responses received.
    pub fn responses(&self) -> u32 {
        match self {
            Self::Client(client) => client.responses,
            Self::Server { .. } => 0,
        }
    }
}

impl Client {
    fn ask(&mut self, context: &mut Context<'_, Host>) {
        if !self.busy {
            context.request(self.server, Request::new(Code::GET, Body::EMPTY)).expect("nothing is queued");
            self.busy = true;
        }
    }

    fn over(&mut self, context: &mut Context<'_, Host>) {
        self.busy = false;
        if self.period.is_none() {
            self.ask(context);
        }
    }
}

impl Application for Host {
    type Timer = ();

    fn start(&mut self, context: &mut Context<'_, Self>) {
        let Self::Client(client) = self else { return };
        match client.period {
            None => client.ask(context),
            Some(period) => {
                // Spread, so that clients do not all send at the same time.
                let first = context.rng().below(u64::try_from(period.as_nanos()).unwrap_or(u64::MAX));
                context.set_timer(Duration::from_nanos(first), ());
            }
        }
    }

    fn event(&mut self, context: &mut Context<'_, Self>, event: Event<NodeId>) {
        match (self, event) {
            (Self::Server { response }, Event::Request { id, .. }) => {
                context.respond(id, Response::new(Code::CONTENT, response.clone())).map(drop).expect("it waits");
            }
            (Self::Client(client), Event::Response { .. }) => {
                client.responses += 1;
                client.over(context);
            }
            (Self::Client(client), Event::Failed { .. }) => client.over(context),
            _ => {}
        }
    }

    fn timer(&mut self, context: &mut Context<'_, Self>, (): ()) {
        let Self::Client(client) = self else { return };
        if let Some(period) = client.period {
            context.set_timer(period, ());
        }
        client.ask(context);
    }
}
