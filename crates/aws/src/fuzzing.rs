//! Parsers of this crate for fuzz targets (`crates/fuzz`), and for nothing else.

use crate::xml::Element;
use crate::{ec2, elb, error};

/// Reads an answer of AWS in all the ways in which we read one, and as an error, which may be cut off.
pub fn answer(text: &str) -> Option<Element> {
    error::read(text);
    let root = Element::parse(text).ok()?;
    ec2::read(&root);
    elb::read(&root);
    Some(root)
}
