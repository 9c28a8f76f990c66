//! Reads the fields of one message: numbers and slices, nothing is copied.

use serde::de::Error as _;

pub(super) type Result<T> = std::result::Result<T, serde_json::Error>;

/// The value of a field as it is on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wire<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    /// Four or eight bytes. No field of a built-in kind has them.
    Fixed,
}

impl<'a> Wire<'a> {
    pub(super) fn number(self) -> Result<i64> {
        match self {
            // A negative number is written as the 64 bits of its two's complement.
            Self::Number(number) => Ok(number as i64),
            _ => Err(error("a number is missing")),
        }
    }

    pub(super) fn bytes(self) -> Result<&'a [u8]> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            _ => Err(error("a text or a message is missing")),
        }
    }

    pub(super) fn text(self) -> Result<&'a str> {
        std::str::from_utf8(self.bytes()?).map_err(|_| error("a text is not UTF-8"))
    }

    /// Whether it is zero, false or empty.
    pub(super) fn is_empty(self) -> bool {
        matches!(self, Self::Number(0) | Self::Bytes([]))
    }
}

/// The fields of a message, in the order of the bytes.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    pub(super) fn of(message: &'a [u8]) -> Self {
        Self(message)
    }

    /// The next field: its number and its value.
    pub(super) fn next(&mut self) -> Result<Option<(u32, Wire<'a>)>> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let wire = match tag & 7 {
            0 => Wire::Number(self.varint()?),
            2 => {
                let length = usize::try_from(self.varint()?).map_err(|_| cut())?;
                Wire::Bytes(self.take(length)?)
            }
            1 => self.take(8).map(|_| Wire::Fixed)?,
            5 => self.take(4).map(|_| Wire::Fixed)?,
            _ => return Err(error("a field has an unknown wire type")),
        };
        let number = u32::try_from(tag >> 3).ok().filter(|number| *number != 0);
        Ok(Some((number.ok_or_else(|| error("a field has an impossible number"))?, wire)))
    }

    /// The next field, if it has this number.
    pub(super) fn next_if(&mut self, number: u32) -> Result<Option<Wire<'a>>> {
        let mut ahead = *self;
        match ahead.next()? {
            Some((found, wire)) if found == number => {
                *self = ahead;
                Ok(Some(wire))
            }
            _ => Ok(None),
        }
    }

    /// The last value of a field.
    pub(super) fn find(mut self, number: u32) -> Result<Option<Wire<'a>>> {
        let mut found = None;
        while let Some((at, wire)) = self.next()? {
            if at == number {
                found = Some(wire);
            }
        }
        Ok(found)
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8]> {
        let (head, tail) = self.0.split_at_checked(length).ok_or_else(cut)?;
        self.0 = tail;
        Ok(head)
    }

    fn varint(&mut self) -> Result<u64> {
        let mut value = 0;
        for (at, byte) in self.0.iter().enumerate().take(10) {
            value |= u64::from(byte & 0x7f) << (7 * at);
            if byte & 0x80 == 0 {
                self.0 = self.0.get(at + 1..).unwrap_or_default();
                return Ok(value);
            }
        }
        Err(cut())
    }
}

pub(super) fn error(text: &str) -> serde_json::Error {
    serde_json::Error::custom(format_args!("protobuf: {text}"))
}

fn cut() -> serde_json::Error {
    error("a message ends in the middle of a field")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_numbers_and_slices() {
        let bytes =
            [0x08, 0x96, 0x01, 0x12, 0x02, b'h', b'i', 0x19, 0, 0, 0, 0, 0, 0, 0, 0, 0x25, 0, 0, 0, 0];
        let mut fields = Fields::of(&bytes);
        assert_eq!(fields.next().unwrap(), Some((1, Wire::Number(150))));
        assert_eq!(fields.next_if(3).unwrap(), None);
        assert_eq!(fields.next_if(2).unwrap(), Some(Wire::Bytes(b"hi")));
        assert_eq!(fields.next().unwrap(), Some((3, Wire::Fixed)));
        assert_eq!(fields.next().unwrap(), Some((4, Wire::Fixed)));
        assert_eq!(fields.next().unwrap(), None);
        let minus_one = [0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
        assert_eq!(Fields::of(&minus_one).find(1).unwrap().unwrap().number().unwrap(), -1);
    }

    #[test]
    fn broken_messages_are_errors() {
        let table: [(&str, &[u8]); 7] = [
            ("no value", &[0x08]),
            ("a varint without an end", &[0x08, 0x80]),
            ("a varint of eleven bytes", &[0x08, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1]),
            ("a slice beyond the end", &[0x0a, 0x05, 1]),
            ("a slice longer than memory", &[0x0a, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1]),
            ("a group", &[0x0b]),
            ("field zero", &[0x00, 0x00]),
        ];
        for (case, bytes) in table {
            assert!(Fields::of(bytes).next().is_err(), "{case}");
        }
    }
}
