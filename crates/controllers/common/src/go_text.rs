//! Values as Go prints them inside events and conditions, which users' tools match on.

use std::fmt::Write;

use flyball_api::LabelSelector;

/// A selector as `%v` prints it.
pub fn selector(selector: Option<&LabelSelector>) -> String {
    let Some(LabelSelector { match_labels, match_expressions }) = selector else { return "nil".to_owned() };
    let mut text = "&LabelSelector{MatchLabels:map[string]string{".to_owned();
    for (key, value) in match_labels.iter() {
        let _ = write!(text, "{key}: {value},");
    }
    text.push_str("},MatchExpressions:[]LabelSelectorRequirement{");
    for wanted in match_expressions {
        let (key, operator, values) = (&wanted.key, &wanted.operator, wanted.values.join(" "));
        let _ = write!(text, "LabelSelectorRequirement{{Key:{key},Operator:{operator},Values:[{values}],}},");
    }
    text.push_str("},}");
    text
}
