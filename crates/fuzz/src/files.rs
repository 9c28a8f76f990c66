//! Files of gzip members with lines of JSON. After an odd first byte comes what is in one member, which is packed here, so that
//! changes of it reach the parser.

use std::borrow::Cow;
use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use flyball_replay::file::{Recording, Writer};

fn packed(text: &[u8]) -> Vec<u8> {
    let mut packed = GzEncoder::new(vec![], Compression::fast());
    packed.write_all(text).expect("to pack");
    packed.finish().expect("to pack")
}

fn file(data: &[u8]) -> Option<Cow<'_, [u8]>> {
    let (kind, rest) = data.split_first()?;
    Some(if kind % 2 == 0 { rest.into() } else { packed(rest).into() })
}

/// A file of `flyball record`. What it has is the same when it is written again.
pub(crate) fn recording(data: &[u8]) {
    let Some(file) = file(data) else { return };
    let Ok(recording) = Recording::read(&*file) else { return };
    let mut again = vec![];
    let mut writer = Writer::begin(&mut again, &recording.head).expect("to write");
    for (key, object) in &recording.objects {
        writer.object(key, object).expect("to write");
    }
    for change in &recording.changes {
        writer.change(change.clone()).expect("to write");
    }
    writer.end(recording.end).expect("to write");
    let complete = Recording { is_complete: true, ..recording };
    assert_eq!(Recording::read(&*again).expect("what was written can be read"), complete);
}

/// A file of the journal of decisions. Its lines are the same when they are written again.
pub(crate) fn journal(data: &[u8]) {
    let Some(file) = file(data) else { return };
    let lines = flyball_journal::fuzzing::segment(&file);
    let text: Vec<_> = lines.iter().map(|line| serde_json::to_string(line).expect("a line")).collect();
    assert_eq!(flyball_journal::fuzzing::segment(&packed(text.join("\n").as_bytes())), lines);
}
