//! Splits the body of a watch into events of bounded length: one JSON object per line, or protobuf messages after their length.

use bytes::{Buf, Bytes, BytesMut};
use flyball_api::protobuf;
use serde::Deserialize;
use serde::de::IntoDeserializer;
use serde_json::value::RawValue;

use crate::encoding::{Encoding, RawObject};

/// client-go's limit for one frame. etcd refuses objects of a tenth of it.
pub(crate) const MAX_FRAME: usize = 16 * 1024 * 1024;

/// What happened to the object of a [`WatchEvent`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EventKind {
    /// It is new, or part of the initial list.
    Added,
    Modified,
    /// It was deleted (or no longer matches the selectors); the object is its last state.
    Deleted,
    /// The object carries only the version reached.
    Bookmark,
}

/// One event of a watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchEvent {
    pub kind: EventKind,
    pub object: RawObject,
}

/// An event, or the server's reason to end the watch.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Frame {
    Event(WatchEvent),
    Error(Bytes),
}

/// A frame longer than the limit.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Oversized;

/// Collects bytes until a frame is complete.
#[derive(Debug)]
pub(crate) enum Frames {
    Json(Lines),
    Protobuf(Messages),
}

impl Frames {
    pub(crate) fn new(encoding: Encoding, limit: usize) -> Self {
        match encoding {
            Encoding::Protobuf => Self::Protobuf(Messages::new(limit)),
            Encoding::Json => Self::Json(Lines::new(limit)),
        }
    }

    pub(crate) fn push(&mut self, chunk: &[u8]) {
        match self {
            Self::Json(lines) => lines.push(chunk),
            Self::Protobuf(messages) => messages.push(chunk),
        }
    }

    /// The next complete frame; the inner error is that of a frame which cannot be parsed.
    pub(crate) fn next(&mut self) -> Result<Option<serde_json::Result<Frame>>, Oversized> {
        Ok(match self {
            Self::Json(lines) => lines.next()?.map(|line| Frame::parse(&line)),
            Self::Protobuf(messages) => messages.next()?.map(|message| Frame::parse_protobuf(&message)),
        })
    }

    /// Whether bytes are left after the last frame: then the stream ended in the middle of one.
    pub(crate) fn has_rest(&self) -> bool {
        match self {
            Self::Json(lines) => lines.has_rest(),
            Self::Protobuf(messages) => messages.has_rest(),
        }
    }
}

/// Collects bytes until a line is complete.
#[derive(Debug)]
pub(crate) struct Lines {
    buffer: BytesMut,
    /// Bytes of `buffer` without a newline, so that a long line is searched once.
    searched: usize,
    limit: usize,
}

impl Lines {
    pub(crate) fn new(limit: usize) -> Self {
        Self { buffer: BytesMut::new(), searched: 0, limit }
    }

    pub(crate) fn push(&mut self, chunk: &[u8]) {
        self.buffer.extend_from_slice(chunk);
    }

    /// The next complete line that is not blank, without its newline.
    pub(crate) fn next(&mut self) -> Result<Option<Bytes>, Oversized> {
        loop {
            let unseen = self.buffer.get(self.searched..).unwrap_or_default();
            let Some(at) = memchr::memchr(b'\n', unseen) else {
                self.searched = self.buffer.len();
                return if self.searched > self.limit { Err(Oversized) } else { Ok(None) };
            };
            let end = self.searched + at;
            let mut line = self.buffer.split_to(end + 1).freeze();
            line.truncate(end);
            self.searched = 0;
            if line.len() > self.limit {
                return Err(Oversized);
            }
            if !line.iter().all(u8::is_ascii_whitespace) {
                return Ok(Some(line));
            }
        }
    }

    /// Whether bytes are left after the last newline: then the stream ended in the middle of a line.
    pub(crate) fn has_rest(&self) -> bool {
        !self.buffer.iter().all(u8::is_ascii_whitespace)
    }
}

/// Collects bytes until a message is complete. Its length precedes it in four bytes, the highest first.
#[derive(Debug)]
pub(crate) struct Messages {
    buffer: BytesMut,
    limit: usize,
}

impl Messages {
    pub(crate) fn new(limit: usize) -> Self {
        Self { buffer: BytesMut::new(), limit }
    }

    pub(crate) fn push(&mut self, chunk: &[u8]) {
        self.buffer.extend_from_slice(chunk);
    }

    /// The next complete message, without its length. The length is checked before the message is waited for.
    pub(crate) fn next(&mut self) -> Result<Option<Bytes>, Oversized> {
        let Some((length, rest)) = self.buffer.split_first_chunk() else { return Ok(None) };
        let length = usize::try_from(u32::from_be_bytes(*length)).map_err(|_| Oversized)?;
        if length > self.limit {
            return Err(Oversized);
        }
        if rest.len() < length {
            return Ok(None);
        }
        self.buffer.advance(size_of::<u32>());
        Ok(Some(self.buffer.split_to(length).freeze()))
    }

    pub(crate) fn has_rest(&self) -> bool {
        !self.buffer.is_empty()
    }
}

#[derive(Deserialize)]
struct WireFrame<'a> {
    #[serde(rename = "type")]
    kind: WireKind,
    #[serde(borrow)]
    object: &'a RawValue,
}

#[derive(Deserialize)]
#[serde(rename_all = "UPPERCASE")]
enum WireKind {
    Added,
    Modified,
    Deleted,
    Bookmark,
    Error,
}

impl Frame {
    /// Parses one line. The object is a slice of it, neither copied nor parsed.
    pub(crate) fn parse(line: &Bytes) -> Result<Self, serde_json::Error> {
        let (kind, object) = match WireKind::and_object(line) {
            Some((kind, object)) => (kind, line.slice_ref(object)),
            None => {
                let frame: WireFrame<'_> = serde_json::from_slice(line)?;
                (frame.kind, line.slice_ref(frame.object.get().as_bytes()))
            }
        };
        Ok(match kind.of_event() {
            Some(kind) => Self::Event(WatchEvent { kind, object: RawObject::json(object) }),
            None => Self::Error(object),
        })
    }

    /// Parses one message. The object is a slice of it.
    pub(crate) fn parse_protobuf(message: &Bytes) -> Result<Self, serde_json::Error> {
        let event = protobuf::WatchEvent::open(message)?;
        let kind = WireKind::deserialize(event.type_.into_deserializer())?;
        let object = message.slice_ref(event.object);
        Ok(match kind.of_event() {
            Some(kind) => Self::Event(WatchEvent { kind, object: RawObject::in_envelope(&object)? }),
            None => Self::Error(object),
        })
    }
}

impl WireKind {
    /// `None` for an error.
    fn of_event(&self) -> Option<EventKind> {
        match self {
            Self::Added => Some(EventKind::Added),
            Self::Modified => Some(EventKind::Modified),
            Self::Deleted => Some(EventKind::Deleted),
            Self::Bookmark => Some(EventKind::Bookmark),
            Self::Error => None,
        }
    }

    /// API servers write `{"type":…,"object":…}` in this order, without white space, so that the end of the object is known
    /// without parsing it. Whether it is valid JSON is checked when it is decoded.
    fn and_object(line: &[u8]) -> Option<(Self, &[u8])> {
        let rest = line.strip_prefix(br#"{"type":""#)?;
        let (kind, rest) = match rest.first()? {
            b'A' => (Self::Added, rest.strip_prefix(b"ADDED")?),
            b'M' => (Self::Modified, rest.strip_prefix(b"MODIFIED")?),
            b'D' => (Self::Deleted, rest.strip_prefix(b"DELETED")?),
            b'B' => (Self::Bookmark, rest.strip_prefix(b"BOOKMARK")?),
            b'E' => (Self::Error, rest.strip_prefix(b"ERROR")?),
            _ => return None,
        };
        let object = rest.strip_prefix(br#"","object":"#)?.strip_suffix(b"}")?;
        (object.starts_with(b"{") && object.ends_with(b"}")).then_some((kind, object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn cut(chunks: &[&[u8]], limit: usize) -> Result<(Vec<Bytes>, bool), Oversized> {
        let mut lines = Lines::new(limit);
        let mut out = vec![];
        for chunk in chunks {
            lines.push(chunk);
            while let Some(line) = lines.next()? {
                out.push(line);
            }
        }
        Ok((out, lines.has_rest()))
    }

    #[test]
    fn lines_do_not_depend_on_the_chunks_of_the_network() {
        type Row<'a> = (&'a str, &'a [&'a [u8]], &'a [&'a str], bool);
        #[rustfmt::skip]
        let table: [Row<'_>; 6] = [
            ("one chunk, two lines",  &[b"a\nb\n"],            &["a", "b"],  false),
            ("a line in pieces",      &[b"a", b"b", b"c\nd"],  &["abc"],     true),
            ("newline on its own",    &[b"a", b"\n"],          &["a"],       false),
            ("blank lines are skipped", &[b"\n \r\na\n\n"],    &["a"],       false),
            ("nothing",               &[],                     &[],          false),
            ("cut in the middle",     &[b"a\nhalf"],           &["a"],       true),
        ];
        for (case, chunks, want, rest) in table {
            let (lines, has_rest) = cut(chunks, 100).unwrap();
            assert_eq!(
                lines,
                want.iter().map(|s| Bytes::from_static(s.as_bytes())).collect::<Vec<_>>(),
                "{case}"
            );
            assert_eq!(has_rest, rest, "{case}");
        }
    }

    #[test]
    fn a_line_beyond_the_limit_is_refused_with_and_without_its_end() {
        assert_eq!(cut(&[b"12345\n"], 5).map(|(lines, _)| lines.len()), Ok(1));
        assert_eq!(cut(&[b"123456\n"], 5), Err(Oversized));
        assert_eq!(cut(&[b"123", b"456"], 5), Err(Oversized));
    }

    #[test]
    fn frames_keep_the_object_as_served() {
        let line = Bytes::from_static(br#"{"type":"ADDED","object":{"b": 1,"a":"\u003c"}}"#);
        let Ok(Frame::Event(event)) = Frame::parse(&line) else { panic!("an event") };
        assert_eq!(event.kind, EventKind::Added);
        assert_eq!(event.object, RawObject::json(&br#"{"b": 1,"a":"\u003c"}"#[..]));

        let line = Bytes::from_static(br#"{"object":{"kind":"Status","code":410},"type":"ERROR"}"#);
        assert!(
            matches!(Frame::parse(&line), Ok(Frame::Error(o)) if &o[..] == br#"{"kind":"Status","code":410}"#)
        );
    }

    #[test]
    fn the_order_that_servers_use_and_any_other_read_the_same() {
        for kind in ["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"] {
            for object in ["{}", r#"{"a":{"b":"}}"}}"#] {
                let usual = format!(r#"{{"type":"{kind}","object":{object}}}"#);
                let other = format!(r#"{{"object": {object}, "type": "{kind}"}}"#);
                assert!(WireKind::and_object(usual.as_bytes()).is_some());
                assert_eq!(Frame::parse(&usual.into()).unwrap(), Frame::parse(&other.into()).unwrap());
            }
        }
    }

    #[test]
    fn invalid_frames_are_errors() {
        for bad in
            ["", "{}", "[]", "null", r#"{"type":"ADDED"}"#, r#"{"type":"GREETED","object":{}}"#, "{\"type\":"]
        {
            assert!(Frame::parse(&Bytes::copy_from_slice(bad.as_bytes())).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes: Vec<u8>) {
            if let Ok((lines, _)) = cut(&[&bytes], 64) {
                for line in &lines {
                    let _ = Frame::parse(line);
                }
            }
        }

        #[test]
        fn chunking_does_not_matter(
            lines in prop::collection::vec("[ -~]{0,40}", 0..20),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..20),
        ) {
            let whole = lines.join("\n");
            let mut at: Vec<usize> = cuts.iter().map(|c| c.index(whole.len() + 1)).collect();
            at.extend([0, whole.len()]);
            at.sort_unstable();
            let pieces: Vec<&[u8]> = at.windows(2).map(|w| &whole.as_bytes()[w[0]..w[1]]).collect();
            prop_assert_eq!(cut(&pieces, 1000), cut(&[whole.as_bytes()], 1000));
        }
    }
}
