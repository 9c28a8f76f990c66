//! Parsers of this crate for fuzz targets (`crates/fuzz`), and for nothing else.

use crate::Line;
use crate::segments::lines_in;
use crate::trace::otlp;

/// The lines of a file, each read as a decision, and all together as traces.
pub fn segment(bytes: &[u8]) -> Vec<Line> {
    let lines = lines_in(bytes);
    for line in &lines {
        let _ = line.decision();
    }
    let _ = otlp(&lines);
    lines
}
