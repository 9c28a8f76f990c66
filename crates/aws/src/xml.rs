//! Answers: XML as a tree of names and texts. Namespaces and attributes do not matter here.

/// How deep an answer may be nested. AWS's are not half as deep.
const DEEPEST: usize = 32;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Element {
    pub name: String,
    text: String,
    children: Vec<Element>,
}

#[derive(Debug, thiserror::Error)]
pub enum XmlError {
    #[error(transparent)]
    Syntax(#[from] roxmltree::Error),
    #[error("it is nested more than {DEEPEST} levels deep")]
    Deep,
}

impl Element {
    /// The root of a document. Documents with a DTD are refused.
    pub fn parse(text: &str) -> Result<Self, XmlError> {
        Self::of(roxmltree::Document::parse(text)?.root_element(), 0)
    }

    fn of(node: roxmltree::Node<'_, '_>, depth: usize) -> Result<Self, XmlError> {
        if depth >= DEEPEST {
            return Err(XmlError::Deep);
        }
        let children = node.children().filter(roxmltree::Node::is_element);
        Ok(Self {
            name: node.tag_name().name().to_owned(),
            text: node.text().unwrap_or_default().trim().to_owned(),
            children: children.map(|child| Self::of(child, depth + 1)).collect::<Result<_, _>>()?,
        })
    }

    /// The first element at a path such as `placement/availabilityZone`.
    pub fn at(&self, path: &str) -> Option<&Self> {
        path.split('/')
            .try_fold(self, |element, name| element.children.iter().find(|child| child.name == name))
    }

    /// The text at a path; empty if there is none.
    pub fn text(&self, path: &str) -> &str {
        self.at(path).map_or("", |element| &element.text)
    }

    /// The elements of the list at a path.
    pub fn list<'a>(&'a self, path: &str) -> impl Iterator<Item = &'a Self> + use<'a> {
        self.at(path).into_iter().flat_map(|list| &list.children)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn texts_and_lists_are_found_by_path_and_what_is_missing_is_empty() {
        let text = r#"<?xml version="1.0"?>
            <R xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><set>
              <item><id> i-1 </id><state><name>a&amp;b</name></state></item><item><id>i-2</id></item>
            </set><empty/></R>"#;
        let root = Element::parse(text).unwrap();
        let ids: Vec<&str> = root.list("set").map(|item| item.text("id")).collect();
        assert_eq!((root.name.as_str(), ids), ("R", vec!["i-1", "i-2"]));
        assert_eq!(root.text("set/item/state/name"), "a&b");
        assert_eq!((root.text("empty"), root.text("set/none/x"), root.list("none").count()), ("", "", 0));
    }

    #[test]
    fn what_is_no_xml_of_ours_is_refused() {
        let deep = format!("{}{}", "<a>".repeat(40), "</a>".repeat(40));
        #[rustfmt::skip]
        let table = [
            ("",                                                   "root node"),
            ("<a><b></a>",                                         "expected 'b' tag, not 'a'"),
            ("<!DOCTYPE a [<!ENTITY b \"c\">]><a>&b;</a>",         "DTD"),
            (deep.as_str(),                                        "more than 32 levels"),
        ];
        for (text, want) in table {
            let error = Element::parse(text).unwrap_err().to_string();
            assert!(error.contains(want), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[<>/a&;! \"=]{0,60}") {
            let _ = Element::parse(&text);
        }
    }
}
