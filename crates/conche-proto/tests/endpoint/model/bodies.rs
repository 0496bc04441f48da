//! Q-Block bodies (RFC 9177) of a peer that mostly conforms.

use conche_proto::codec::{Block, BlockSize, Body, Code, Encoder, Message, MessageId, OptionNumber, Token, Type};

use super::Address;
use super::script::{Bytes, Machine};

const RESPONSE_BYTES: u32 = 333;

const LENGTHS: [u32; 4] = [100, 16, 17, 500];

impl Machine {
    /// It continues a recently sent one, or is a block of a peer's own body.
    pub(super) fn receive_of_burst(&mut self, bytes: &mut Bytes<'_>) {
        let index = bytes.index(self.sent.len());
        let answered = self.sent.iter().rev().nth(index).cloned();
        let Some((to, sent)) = answered.filter(|_| !bytes.next().is_multiple_of(4)) else {
            return self.receive_upload(bytes);
        };
        let sent = Message::decode_extended(&sent).expect("what was sent is well-formed");
        let of = |number| sent.block(number).expect("endpoints send no reserved sizes");
        match (of(OptionNumber::Q_BLOCK1), of(OptionNumber::Q_BLOCK2)) {
            (Some(block), _) if sent.code().is_request() => self.answer_payload(to, &sent, block, bytes),
            (_, Some(block)) if sent.code().is_request() => self.answer_with_block(to, &sent, block, bytes),
            (_, Some(block)) if sent.code().is_response() => self.ask_for_more(to, sent.token(), block, bytes),
            _ if sent.code().is_response() => self.ask_for_all(to, sent.token(), bytes),
            _ => self.receive_upload(bytes),
        }
    }

    /// The burst is complete, blocks are missing, or the transfer ends.
    fn answer_payload(&mut self, to: Address, sent: &Message<'_>, block: Block, bytes: &mut Bytes<'_>) {
        let near = |bytes: &mut Bytes<'_>| block.num.saturating_sub(bytes.choose(&[0, 0, 1, 2, 5]));
        let (code, body) = match bytes.next() % 8 {
            0..=2 => {
                let before = near(bytes);
                let up_to = Block { num: bytes.choose(&[block.num, block.num, before]), more: true, ..block };
                (Code::CONTINUE, Body::builder().option(OptionNumber::Q_BLOCK1, up_to.encode().as_slice()))
            }
            3 | 4 => {
                let (from, most) = (near(bytes), bytes.choose(&[0, 1, 1, 3]));
                let numbers: Vec<u8> =
                    (from..=from + most).take_while(|&number| number < 24).map(|n| n as u8).collect();
                let body = Body::builder().uint(OptionNumber::CONTENT_FORMAT, 272).payload(numbers);
                (Code::REQUEST_ENTITY_INCOMPLETE, body)
            }
            5 => (bytes.choose(&[Code::CHANGED, Code::BAD_OPTION, Code::REQUEST_ENTITY_INCOMPLETE]), Body::builder()),
            _ if sent.ty() == Type::Confirmable => (Code::EMPTY, Body::builder()),
            _ => (Code::CONTINUE, Body::builder().option(OptionNumber::Q_BLOCK1, block.encode().as_slice())),
        };
        let piggybacked = sent.ty() == Type::Confirmable && (code.is_empty() || bytes.next().is_multiple_of(2));
        let (ty, id) = match piggybacked {
            true => (Type::Acknowledgement, sent.id()),
            false => (Type::NonConfirmable, MessageId(0x6000 | u16::from(bytes.next()))),
        };
        let token = if code.is_empty() { Token::EMPTY } else { sent.token() };
        self.receive_body(to, (ty, code, id, token), &body.build().expect("legal options"));
    }

    fn answer_with_block(&mut self, to: Address, sent: &Message<'_>, asked: Block, bytes: &mut Bytes<'_>) {
        let size = if asked.size.bytes() > 64 { BlockSize::B16 } else { asked.size };
        let num = asked.num + bytes.choose(&[0, 0, 1, 2, 3, 9, 10]);
        let offset = (num as usize * size.bytes()).min(RESPONSE_BYTES as usize);
        let length = size.bytes().min(RESPONSE_BYTES as usize - offset);
        let more = offset + length < RESPONSE_BYTES as usize;
        let etag: &[u8] = if bytes.next().is_multiple_of(32) { b"f" } else { b"e" };
        let mut body = Body::builder().option(OptionNumber::ETAG, etag);
        if sent.option(OptionNumber::OBSERVE).is_some() {
            // A notification, the newest state or an older one.
            body = body.uint(OptionNumber::OBSERVE, bytes.choose(&[5, 5, 5, 6, 7, 4]));
        }
        let body = body
            .uint(OptionNumber::SIZE2, RESPONSE_BYTES)
            .option(OptionNumber::Q_BLOCK2, Block { num, more, size }.encode().as_slice())
            .payload(vec![b'b'; length]);
        let (ty, id) = match sent.ty() {
            Type::Confirmable if bytes.next().is_multiple_of(2) => (Type::Acknowledgement, sent.id()),
            _ => {
                let ty = bytes.choose(&[Type::NonConfirmable, Type::NonConfirmable, Type::Confirmable]);
                (ty, MessageId(0x6000 | u16::from(bytes.next())))
            }
        };
        self.receive_body(to, (ty, Code::CONTENT, id, sent.token()), &body.build().expect("legal options"));
    }

    fn ask_for_more(&mut self, from: Address, token: Token, last: Block, bytes: &mut Bytes<'_>) {
        let first = (last.num + bytes.choose(&[0, 1, 1, 2])).saturating_sub(bytes.choose(&[0, 0, 1, 9]));
        let apart = bytes.choose(&[0, 0, 1, 2, 3]);
        let more = bytes.next().is_multiple_of(2);
        let mut blocks = vec![Block { num: first, more: more && apart == 0, size: last.size }];
        if apart > 0 {
            blocks.push(Block { num: first + apart, more, size: last.size });
        }
        self.ask(from, token, &blocks, bytes);
    }

    fn ask_for_all(&mut self, from: Address, token: Token, bytes: &mut Bytes<'_>) {
        let size = bytes.choose(&[BlockSize::B16, BlockSize::B64]);
        let first = Block { num: 0, more: bytes.next().is_multiple_of(2), size };
        self.ask(from, token, &[first], bytes);
    }

    fn ask(&mut self, from: Address, token: Token, blocks: &[Block], bytes: &mut Bytes<'_>) {
        let value = |block: &Block| block.encode();
        let mut body = Body::builder();
        if blocks[0].num == 0 && bytes.next().is_multiple_of(2) {
            body = body.uint(OptionNumber::OBSERVE, 0);
        }
        let body = blocks
            .iter()
            .fold(body, |body, block| body.option(OptionNumber::Q_BLOCK2, value(block).as_slice()))
            .build()
            .expect("legal options");
        let ty = bytes.choose(&[Type::NonConfirmable, Type::Confirmable]);
        let id = MessageId(0x100 | u16::from(bytes.next()));
        self.receive_body(from, (ty, bytes.choose(&[Code::GET, Code::GET, Code::FETCH]), id, token), &body);
    }

    fn receive_upload(&mut self, bytes: &mut Bytes<'_>) {
        let from = Self::peer(bytes);
        let size = BlockSize::B16;
        let whole = bytes.choose(&LENGTHS);
        let num = u32::from(bytes.next()) % (whole.div_ceil(16) + 1);
        let offset = (num * 16).min(whole);
        let (length, more) = (16.min(whole - offset), offset + 16 < whole);
        let code = bytes.choose(&[Code::PUT, Code::PUT, Code::FETCH]);
        let mut body = Body::builder();
        if code == Code::FETCH {
            body = body.uint(OptionNumber::OBSERVE, 0);
        }
        let body = body
            .option(OptionNumber::Q_BLOCK1, Block { num, more, size }.encode().as_slice())
            .uint(OptionNumber::SIZE1, whole)
            .option(OptionNumber::REQUEST_TAG, &[bytes.next() % 2])
            .payload(vec![b'u'; length as usize]);
        let ty = bytes.choose(&[Type::NonConfirmable, Type::NonConfirmable, Type::Confirmable]);
        let (id, token) = (MessageId(0x200 | u16::from(bytes.next())), Token::from([8, 8, 8, 8, 8, 8, 0, num as u8]));
        self.receive_body(from, (ty, code, id, token), &body.build().expect("legal options"));
    }

    pub(super) fn receive_body(
        &mut self,
        from: Address,
        (ty, code, id, token): (Type, Code, MessageId, Token),
        body: &Body,
    ) {
        let mut datagram = vec![0; 4 + token.encoded_len() + body.len()];
        let length = match code.is_empty() {
            true => {
                datagram[..4].copy_from_slice(&conche_proto::codec::encode_empty(ty, id));
                4
            }
            false => Encoder::new(&mut datagram, ty, code, id, &token)
                .and_then(|mut encoder| encoder.body(body).map(|encoder| encoder.finish()))
                .expect("room for all of it"),
        };
        self.receive(from, &datagram[..length]);
    }
}
