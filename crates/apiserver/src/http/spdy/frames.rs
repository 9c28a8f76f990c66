//! Frames of SPDY/3.1, and the compression of their headers. No I/O.
//!
//! Only what a server of `kubectl port-forward` needs. Clients ignore flow control, and so do we.

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress};

/// The dictionary that both sides of a connection begin with; it is part of the protocol.
const DICTIONARY: &[u8] = include_bytes!("dictionary");
pub(super) const HEADER: usize = 8;
/// The longest frame that is accepted. Clients send 32 KiB at a time.
pub(super) const LONGEST: usize = 1 << 20;
/// The most that the headers of a stream may be, decompressed.
const MOST_HEADERS: usize = 16 << 10;

const CONTROL: u8 = 0x80;
const VERSION: u8 = 3;
const SYN_STREAM: u8 = 1;
const SYN_REPLY: u8 = 2;
const RST_STREAM: u8 = 3;
const PING: u8 = 6;
const GO_AWAY: u8 = 7;
/// The sender sends no more on this stream.
const FIN: u8 = 1;

/// What a client sends.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Frame {
    /// A new stream.
    Open {
        stream: u32,
        headers: Vec<(String, String)>,
        is_last: bool,
    },
    Data {
        stream: u32,
        bytes: Vec<u8>,
        is_last: bool,
    },
    Reset {
        stream: u32,
    },
    Ping {
        id: [u8; 4],
    },
    /// The client opens no more streams.
    GoAway,
    /// Settings, windows, further headers.
    Other,
}

/// The length of the frame that begins with this header, without the header.
pub(super) fn length(header: &[u8; HEADER]) -> usize {
    usize::from(header[5]) << 16 | usize::from(header[6]) << 8 | usize::from(header[7])
}

/// Reads frames. The headers of all streams are one compressed stream.
pub(super) struct Reader(Decompress);

impl Reader {
    pub(super) fn new() -> Self {
        Self(Decompress::new(true))
    }

    /// `None` if the frame is malformed.
    pub(super) fn read(&mut self, header: &[u8; HEADER], body: Vec<u8>) -> Option<Frame> {
        let is_last = header[4] & FIN != 0;
        let number =
            |at: usize| Some(u32::from_be_bytes(body.get(at..at + 4)?.try_into().ok()?) & 0x7fff_ffff);
        if header[0] & CONTROL == 0 {
            let stream = u32::from_be_bytes([header[0], header[1], header[2], header[3]]);
            return Some(Frame::Data { stream, bytes: body, is_last });
        }
        if header[1] != VERSION {
            return None;
        }
        Some(match header[3] {
            SYN_STREAM => {
                let stream = number(0)?;
                Frame::Open { stream, headers: self.headers(body.get(10..)?)?, is_last }
            }
            RST_STREAM => Frame::Reset { stream: number(0)? },
            PING => Frame::Ping { id: body.get(..4)?.try_into().ok()? },
            GO_AWAY => Frame::GoAway,
            _ => Frame::Other,
        })
    }

    fn headers(&mut self, compressed: &[u8]) -> Option<Vec<(String, String)>> {
        let text = self.decompress(compressed)?;
        let (count, mut rest) = text.split_at_checked(4)?;
        let count = u32::from_be_bytes(count.try_into().ok()?);
        let mut headers = vec![];
        for _ in 0..count {
            headers.push((take(&mut rest)?, take(&mut rest)?));
        }
        Some(headers)
    }

    fn decompress(&mut self, compressed: &[u8]) -> Option<Vec<u8>> {
        let mut out = Vec::with_capacity(MOST_HEADERS);
        let mut rest = compressed;
        while !rest.is_empty() {
            let before = self.0.total_in();
            let done = self.0.decompress_vec(rest, &mut out, FlushDecompress::Sync);
            let read = usize::try_from(self.0.total_in() - before).ok()?;
            rest = rest.get(read..)?;
            match done {
                Ok(_) if read > 0 => {}
                // What is left does not fit, or is not what it should be.
                Ok(_) => return None,
                Err(error) if error.needs_dictionary().is_some() => {
                    self.0.set_dictionary(DICTIONARY).ok()?;
                }
                Err(_) => return None,
            }
        }
        Some(out)
    }
}

/// A text with its length in front.
fn take(from: &mut &[u8]) -> Option<String> {
    let (length, rest) = from.split_at_checked(4)?;
    let length = u32::from_be_bytes(length.try_into().ok()?) as usize;
    let (text, rest) = rest.split_at_checked(length)?;
    *from = rest;
    String::from_utf8(text.to_vec()).ok()
}

/// Writes frames.
pub(super) struct Writer(Compress);

impl Writer {
    pub(super) fn new() -> Self {
        Self(Compress::new(Compression::fast(), true))
    }

    /// Accepts a stream, without headers of our own.
    pub(super) fn reply(&mut self, stream: u32) -> Vec<u8> {
        let none = 0_u32.to_be_bytes();
        let mut compressed = Vec::with_capacity(64);
        // It fits: the dictionary is not used, and there are four bytes.
        let _ = self.0.compress_vec(&none, &mut compressed, FlushCompress::Sync);
        control(SYN_REPLY, &[&stream.to_be_bytes(), &compressed])
    }
}

pub(super) fn data(stream: u32, bytes: &[u8], is_last: bool) -> Vec<u8> {
    let [_, a, b, c] = u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_be_bytes();
    let mut frame = stream.to_be_bytes().to_vec();
    frame.extend([if is_last { FIN } else { 0 }, a, b, c]);
    frame.extend(bytes);
    frame
}

pub(super) fn pong(id: [u8; 4]) -> Vec<u8> {
    control(PING, &[&id])
}

/// Ends a stream in both directions.
pub(super) fn reset(stream: u32) -> Vec<u8> {
    const CANCEL: u32 = 5;
    control(RST_STREAM, &[&stream.to_be_bytes(), &CANCEL.to_be_bytes()])
}

fn control(kind: u8, parts: &[&[u8]]) -> Vec<u8> {
    let body = parts.concat();
    let [_, a, b, c] = u32::try_from(body.len()).unwrap_or(u32::MAX).to_be_bytes();
    [&[CONTROL, VERSION, 0, kind, 0, a, b, c][..], &body].concat()
}

/// What a client would send, for tests and fuzz targets.
pub(super) mod client {
    use super::*;

    pub(in super::super) struct Client(Compress);

    impl Client {
        #[cfg(test)]
        pub(in super::super) fn new() -> Self {
            Self::with_level(Compression::best()).unwrap()
        }

        pub(in super::super) fn with_level(level: Compression) -> Option<Self> {
            let mut compress = Compress::new(level, true);
            compress.set_dictionary(DICTIONARY).ok()?;
            Some(Self(compress))
        }

        #[cfg(test)]
        pub(in super::super) fn open(&mut self, stream: u32, headers: &[(&str, &str)]) -> Vec<u8> {
            let mut text = u32::try_from(headers.len()).unwrap().to_be_bytes().to_vec();
            for part in headers.iter().flat_map(|(name, value)| [name, value]) {
                text.extend(u32::try_from(part.len()).unwrap().to_be_bytes());
                text.extend(part.as_bytes());
            }
            self.open_with(stream, &text).unwrap()
        }

        /// A new stream with headers that may be malformed.
        pub(in super::super) fn open_with(&mut self, stream: u32, headers: &[u8]) -> Option<Vec<u8>> {
            let mut compressed = Vec::with_capacity(4096 + headers.len());
            self.0.compress_vec(headers, &mut compressed, FlushCompress::Sync).ok()?;
            Some(control(SYN_STREAM, &[&stream.to_be_bytes(), &[0; 6], &compressed]))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::client::Client;
    use super::*;

    fn read(reader: &mut Reader, frame: &[u8]) -> Option<Frame> {
        let header: [u8; HEADER] = frame[..HEADER].try_into().unwrap();
        assert_eq!(length(&header), frame.len() - HEADER);
        reader.read(&header, frame[HEADER..].to_vec())
    }

    #[test]
    fn headers_of_all_streams_are_one_compressed_stream() {
        let (mut client, mut reader) = (Client::new(), Reader::new());
        for stream in [1, 3, 5] {
            let frame = client.open(stream, &[("streamtype", "data"), ("port", "80")]);
            let headers = [("streamtype", "data"), ("port", "80")];
            let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
            assert_eq!(read(&mut reader, &frame), Some(Frame::Open { stream, headers, is_last: false }));
        }
    }

    #[test]
    fn other_frames_are_read_and_written() {
        let mut reader = Reader::new();
        let ping = pong([0, 0, 0, 9]);
        assert_eq!(read(&mut reader, &ping), Some(Frame::Ping { id: [0, 0, 0, 9] }));
        assert_eq!(read(&mut reader, &reset(7)), Some(Frame::Reset { stream: 7 }));
        let bytes = b"hello".to_vec();
        assert_eq!(
            read(&mut reader, &data(3, b"hello", true)),
            Some(Frame::Data { stream: 3, bytes, is_last: true })
        );
        assert_eq!(read(&mut reader, &control(4, &[&[0; 4]])), Some(Frame::Other));
    }

    #[test]
    fn what_is_malformed_is_refused() {
        let frame = Client::new().open(1, &[("streamtype", "data")]);
        for end in HEADER..30 {
            let header: [u8; HEADER] = frame[..HEADER].try_into().unwrap();
            assert_eq!(Reader::new().read(&header, frame[HEADER..end].to_vec()), None, "{end}");
        }
        let huge = "x".repeat(2 * MOST_HEADERS);
        let bomb = Client::new().open(1, &[("streamtype", &huge)]);
        assert_eq!(read(&mut Reader::new(), &bomb), None);
    }
}
