//! [`Exchange`]: the transmissions of a Confirmable request, and their replies, from captured
//! datagrams.

use std::collections::{HashMap, HashSet};
use std::net::Ipv4Addr;

use conche_proto::codec::{Message, Type};
use tool_support::capture::Datagram;

/// EXCHANGE_LIFETIME (RFC 7252 §4.8.2), within which no message ID may be used twice.
const LIFETIME_S: f64 = 247.0;

#[derive(Clone, Debug, PartialEq)]
pub struct Exchange {
    pub client: Ipv4Addr,
    pub id: u16,
    pub token: Vec<u8>,
    /// Times in seconds.
    pub transmissions: Vec<f64>,
    /// For each reply of the server, in order, whether it reached the client.
    pub replies: Vec<bool>,
}

impl Exchange {
    /// Returns the number of transmissions that reached the server after one with a delivered reply.
    pub fn unnecessary(&self) -> usize {
        let first = self.replies.iter().position(|is_delivered| *is_delivered);
        first.map_or(0, |first| self.replies.len() - first - 1)
    }

    /// Returns the intervals between its transmissions, in seconds: the timeouts that expired.
    pub fn timeouts(&self) -> impl Iterator<Item = f64> + '_ {
        self.transmissions.windows(2).map(|pair| pair[1] - pair[0])
    }
}

/// Returns the exchanges in order of their first transmission. Requests with the same message ID and
/// token, from the same client, are one exchange.
pub fn exchanges(datagrams: &[Datagram]) -> Vec<Exchange> {
    let dropped: HashSet<_> = datagrams.iter().filter(|of| of.is_dropped).map(|of| (of.number, of.from)).collect();
    let mut exchanges: Vec<Exchange> = Vec::new();
    let mut latest: HashMap<(Ipv4Addr, u16), usize> = HashMap::new();
    let mut by_number: HashMap<u16, usize> = HashMap::new();
    for datagram in datagrams.iter().filter(|of| !of.is_dropped) {
        let Ok(message) = Message::decode(&datagram.payload) else { continue };
        let (id, token) = (message.id().0, message.token().as_slice().to_vec());
        match message.ty() {
            Type::Confirmable if message.code().is_request() => {
                let at = datagram.at_ns as f64 / 1e9;
                let known = latest.get(&(datagram.from, id)).copied();
                let known = known.filter(|&known| exchanges[known].token == token);
                by_number.insert(datagram.number, known.unwrap_or(exchanges.len()));
                match known {
                    Some(known) => exchanges[known].transmissions.push(at),
                    None => {
                        latest.insert((datagram.from, id), exchanges.len());
                        let (transmissions, replies) = (vec![at], Vec::new());
                        exchanges.push(Exchange { client: datagram.from, id, token, transmissions, replies });
                    }
                }
            }
            Type::Acknowledgement => {
                // Behind a NAT, the client has another address.
                let answered = datagram.answers.and_then(|number| by_number.get(&number));
                if let Some(&known) = answered.or_else(|| latest.get(&(datagram.to, id))) {
                    exchanges[known].replies.push(!dropped.contains(&(datagram.number, datagram.from)));
                }
            }
            _ => {}
        }
    }
    exchanges
}

/// Returns the number of exchanges with a message ID that the client had used less than
/// EXCHANGE_LIFETIME before.
pub fn reused_ids(exchanges: &[Exchange]) -> usize {
    reused(exchanges, |exchange| exchange.id, |gap| gap < LIFETIME_S)
}

/// Returns the number of exchanges with a token that the client had used before, which RFC 7252
/// permits after the end of the exchange.
pub fn reused_tokens(exchanges: &[Exchange]) -> usize {
    reused(exchanges, |exchange| exchange.token.clone(), |_| true)
}

fn reused<K: Eq + std::hash::Hash>(
    exchanges: &[Exchange],
    key: impl Fn(&Exchange) -> K,
    counts: impl Fn(f64) -> bool,
) -> usize {
    let mut last: HashMap<(Ipv4Addr, K), f64> = HashMap::new();
    let is_reused = |exchange: &&Exchange| {
        let began = exchange.transmissions[0];
        last.insert((exchange.client, key(exchange)), began).is_some_and(|before| counts(began - before))
    };
    exchanges.iter().filter(is_reused).count()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
    const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 9);

    fn datagram(number: u16, at_s: f64, from: Ipv4Addr, header: [u8; 5]) -> Datagram {
        let to = if from == CLIENT { SERVER } else { CLIENT };
        let at_ns = Duration::from_secs_f64(at_s).as_nanos();
        Datagram { at_ns, from, to, number, answers: None, is_dropped: false, payload: header.to_vec() }
    }

    fn get(number: u16, at_s: f64, id: u8, token: u8) -> Datagram {
        datagram(number, at_s, CLIENT, [0x41, 1, 0, id, token])
    }

    fn content(number: u16, at_s: f64, id: u8, token: u8) -> Datagram {
        datagram(number, at_s, SERVER, [0x61, 0x45, 0, id, token])
    }

    fn lost(datagram: Datagram) -> [Datagram; 2] {
        [datagram.clone(), Datagram { is_dropped: true, ..datagram }]
    }

    #[test]
    fn only_transmissions_after_one_with_a_delivered_reply_are_unnecessary() {
        let mut datagrams = lost(get(0, 0.0, 1, 5)).to_vec();
        datagrams.push(get(1, 2.5, 1, 5));
        datagrams.extend(lost(content(2, 2.6, 1, 5)));
        datagrams.extend([get(3, 7.5, 1, 5), content(4, 7.6, 1, 5), get(5, 17.5, 1, 5), content(6, 17.6, 1, 5)]);
        let exchanges = exchanges(&datagrams);
        assert_eq!(exchanges.len(), 1);
        assert_eq!(exchanges[0].replies, [false, true, true]);
        assert_eq!(exchanges[0].unnecessary(), 1);
        assert_eq!(exchanges[0].timeouts().collect::<Vec<_>>(), [2.5, 5.0, 10.0]);
    }

    #[test]
    fn replies_to_the_address_of_a_nat_belong_to_the_request_that_they_answer() {
        let nat = Ipv4Addr::new(10, 0, 0, 5);
        let reply = |number, at_s, answers| Datagram { to: nat, answers: Some(answers), ..content(number, at_s, 1, 5) };
        let mut datagrams = vec![get(7, 0.0, 1, 5)];
        datagrams.extend(lost(reply(8, 0.1, 7)));
        datagrams.extend([get(9, 2.0, 1, 5), reply(10, 2.1, 9)]);
        assert_eq!(exchanges(&datagrams)[0].replies, [false, true]);
    }

    #[test]
    fn the_same_message_id_with_another_token_is_a_new_exchange() {
        let datagrams = [get(0, 0.0, 1, 5), content(1, 0.1, 1, 5), get(2, 1.0, 1, 6), get(3, 2.0, 2, 6)];
        let found = exchanges(&datagrams);
        assert_eq!(found.iter().map(|of| of.replies.len()).collect::<Vec<_>>(), [1, 0, 0]);
        assert_eq!((reused_ids(&found), reused_tokens(&found)), (1, 1));
    }

    #[test]
    fn a_message_id_may_return_after_its_lifetime() {
        let datagrams = [get(0, 0.0, 1, 5), get(1, 248.0, 1, 6)];
        assert_eq!(reused_ids(&exchanges(&datagrams)), 0);
    }
}
