use super::MoteConfig;
use super::outgoing::Datagram;
use crate::NodeId;
use crate::routing::aodv::Message;
use crate::routing::aodv::message::address;
use crate::transport::tcp::Segment;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Frame {
    Message(Message),
    Datagram(Datagram),
}

/// No routing message has this kind octet.
const DATAGRAM: u8 = 0;

impl Frame {
    pub(super) fn encode(self, config: MoteConfig) -> Vec<u8> {
        let Datagram { origin, destination, segment } = match self {
            Self::Message(message) => return message.encode(),
            Self::Datagram(datagram) => datagram,
        };
        let payload = if segment.has_payload() { config.payload_octets } else { 0 };
        let mut octets = Vec::with_capacity(usize::from(config.header_octets) + usize::from(payload));
        octets.push(DATAGRAM);
        octets.extend(address(origin));
        octets.extend(address(destination));
        octets.extend(segment.encode());
        octets.resize(octets.capacity().max(octets.len()), 0);
        octets
    }

    pub(super) fn decode(octets: &[u8]) -> Option<Self> {
        let (&[kind, a, b, c, d], rest) = octets.split_first_chunk::<5>()?;
        if kind != DATAGRAM {
            return Message::decode(octets).map(Self::Message);
        }
        let node = |octets| NodeId(u16::from_be_bytes(octets).into());
        let (origin, destination, segment) = (node([a, b]), node([c, d]), Segment::decode(rest)?);
        Some(Self::Datagram(Datagram { origin, destination, segment }))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::RadioId;

    #[test]
    fn frames_have_their_size_and_are_decoded_to_what_they_were() {
        let config =
            MoteConfig { radio: RadioId(0), header_octets: 20, payload_octets: 96, processing: Duration::ZERO };
        let (origin, destination) = (NodeId(3), NodeId(59));
        for (segment, size) in [(Segment::Data { number: 5 }, 116), (Segment::Ack { number: 6 }, 20)] {
            let frame = Frame::Datagram(Datagram { origin, destination, segment });
            let octets = frame.encode(config);
            assert_eq!((octets.len(), Frame::decode(&octets)), (size, Some(frame)));
        }
        let message = Frame::Message(Message::Error { origin, destination });
        assert_eq!(Frame::decode(&message.encode(config)), Some(message));
        assert_eq!(Frame::decode(&[0; 4]), None);
    }
}
