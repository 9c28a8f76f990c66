//! Comparison of templates: the form that is compared, and its digest.

use serde_json::{Map, Value};

use super::POD_TEMPLATE_HASH;
use crate::hash::fnv128a;
use crate::quantity::Format;
use crate::{Quantity, RawJson, canonical};

/// The digest of a template's comparable form.
pub(super) fn digest(template: &RawJson) -> u128 {
    fnv128a(canonical::to_string(&comparable(template.to_value())).as_bytes())
}

/// A template without its hash label and with every amount in one notation.
///
/// Upstream: `deploymentutil.EqualIgnoreHash`, which compares amounts by value, too.
fn comparable(mut template: Value) -> Value {
    if let Some(labels) = template.pointer_mut("/metadata/labels").and_then(Value::as_object_mut) {
        labels.remove(POD_TEMPLATE_HASH);
    }
    // The server leaves out what is empty.
    drop_if_empty(&mut template, "/metadata", "labels");
    drop_if_empty(&mut template, "", "metadata");
    unify_amounts(&mut template);
    template
}

fn drop_if_empty(value: &mut Value, path: &str, field: &str) {
    let Some(parent) = value.pointer_mut(path).and_then(Value::as_object_mut) else { return };
    if parent.get(field).and_then(Value::as_object).is_some_and(|object| object.is_empty()) {
        parent.remove(field);
    }
}

/// By path: an annotation or an attribute of a driver may have such a name, too, and is compared letter by letter.
fn unify_amounts(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(unify_amounts),
        Value::Object(fields) => {
            for (field, value) in fields {
                match (field.as_str(), value) {
                    ("limits" | "requests" | "overhead", Value::Object(amounts)) => {
                        amounts.values_mut().for_each(unify)
                    }
                    ("emptyDir", Value::Object(source)) => unify_field(source, "sizeLimit"),
                    ("resourceFieldRef", Value::Object(source)) => unify_field(source, "divisor"),
                    (_, value) => unify_amounts(value),
                }
            }
        }
        _ => {}
    }
}

fn unify_field(fields: &mut Map<String, Value>, name: &str) {
    if let Some(amount) = fields.get_mut(name) {
        unify(amount);
    }
}

fn unify(amount: &mut Value) {
    let parsed = amount.as_str().and_then(|text| text.parse::<Quantity>().ok());
    if let Some(quantity) = parsed {
        *amount = Value::String(quantity.with_format(Format::DecimalSi).to_string());
    }
}

#[cfg(test)]
mod tests {
    use crate::PodTemplate;
    use serde_json::{Value, json};

    fn template(value: Value) -> PodTemplate {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn templates_are_compared_by_the_pods_they_make() {
        let of = |labels: Value, limits: Value, image: &str| {
            template(json!({"metadata": {"labels": labels},
                "spec": {"containers": [{"name": "c", "image": image, "resources": {"limits": limits}}]}}))
        };
        let base = of(json!({"app": "web"}), json!({"memory": "1Gi"}), "a");
        #[rustfmt::skip]
        let table = [
            ("the same",                    of(json!({"app": "web"}), json!({"memory": "1Gi"}), "a"), true),
            ("with a hash",                 of(json!({"app": "web", "pod-template-hash": "x"}), json!({"memory": "1Gi"}), "a"), true),
            ("an amount written otherwise", of(json!({"app": "web"}), json!({"memory": "1073741824"}), "a"), true),
            ("another amount",              of(json!({"app": "web"}), json!({"memory": "1G"}), "a"), false),
            ("another label",               of(json!({"app": "db"}), json!({"memory": "1Gi"}), "a"), false),
            ("another image",               of(json!({"app": "web"}), json!({"memory": "1Gi"}), "b"), false),
        ];
        for (case, other, want) in table {
            assert_eq!(base.makes_same_pods(&other), want, "{case}");
        }
    }

    #[test]
    fn only_amounts_are_compared_by_value() {
        #[rustfmt::skip]
        let table = [
            // path in the template, one value, another, whether they make the same pods
            ("/spec/volumes/0/emptyDir/sizeLimit",                              "1Gi", "1024Mi", true),
            ("/spec/containers/0/env/0/valueFrom/resourceFieldRef/divisor",     "1",   "1.0",    true),
            ("/spec/volumes/1/downwardAPI/items/0/resourceFieldRef/divisor",    "1",   "1.0",    true),
            ("/metadata/annotations/divisor",                                   "1",   "1.0",    false),
            ("/metadata/labels/sizeLimit",                                      "1Gi", "1024Mi", false),
            ("/spec/nodeSelector/divisor",                                      "1",   "1.0",    false),
            ("/spec/volumes/2/csi/volumeAttributes/sizeLimit",                  "1Gi", "1024Mi", false),
        ];
        let with = |path: &str, amount: &str| {
            let mut value = json!({
                "metadata": {"annotations": {"divisor": ""}, "labels": {"sizeLimit": ""}},
                "spec": {
                    "nodeSelector": {"divisor": ""},
                    "containers": [{"name": "c", "env": [{"name": "e", "valueFrom": {"resourceFieldRef": {"divisor": ""}}}]}],
                    "volumes": [
                        {"name": "a", "emptyDir": {"sizeLimit": ""}},
                        {"name": "b", "downwardAPI": {"items": [{"resourceFieldRef": {"divisor": ""}}]}},
                        {"name": "c", "csi": {"volumeAttributes": {"sizeLimit": ""}}},
                    ],
                },
            });
            *value.pointer_mut(path).expect(path) = amount.into();
            template(value)
        };
        for (path, one, other, want) in table {
            assert_eq!(with(path, one).makes_same_pods(&with(path, other)), want, "{path}");
        }
    }

    #[test]
    fn a_revision_is_the_template_without_its_hash() {
        let spec = json!({"containers": [{"name": "a"}]});
        let plain = template(json!({"metadata": {"labels": {"app": "web"}}, "spec": spec}));
        let hashed =
            template(json!({"metadata": {"labels": {"app": "web", "pod-template-hash": "1"}}, "spec": spec}));
        let other = template(json!({"metadata": {"labels": {"app": "api"}}, "spec": spec}));
        let bare = template(json!({"spec": spec}));
        let bare_hashed = template(json!({"metadata": {"labels": {"pod-template-hash": "1"}}, "spec": spec}));
        assert_eq!(plain.revision_digest(), hashed.revision_digest());
        assert_eq!(bare.revision_digest(), bare_hashed.revision_digest());
        assert_ne!(plain.revision_digest(), other.revision_digest());
        assert_ne!(plain.raw(), hashed.raw());
    }
}
