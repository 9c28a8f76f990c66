//! Content negotiation. Plain text is the default; structured formats must be requested by group, version and kind, as in
//! upstream.

/// A format of `/flagz` or `/statusz`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Text,
    Json(Version),
    Yaml(Version),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    V1Alpha1,
    V1Beta1,
}

impl Version {
    pub(super) fn name(self) -> &'static str {
        match self {
            Version::V1Alpha1 => "v1alpha1",
            Version::V1Beta1 => "v1beta1",
        }
    }
}

/// The best acceptable format for an `Accept` header; `kind` is `Flagz` or `Statusz`.
pub(super) fn negotiate(accept: &str, kind: &str) -> Option<Form> {
    if accept.trim().is_empty() {
        return Some(Form::Text);
    }
    let mut clauses: Vec<Clause<'_>> = accept.split(',').map(Clause::parse).collect();
    // Stable: among equal formats, the first is used.
    clauses.sort_by(|a, b| b.weight.total_cmp(&a.weight));
    clauses.iter().filter(|clause| clause.weight > 0.0).find_map(|clause| clause.form(kind))
}

struct Clause<'a> {
    range: &'a str,
    parameters: Vec<(&'a str, &'a str)>,
    weight: f32,
}

impl<'a> Clause<'a> {
    fn parse(text: &'a str) -> Self {
        let mut parts = text.split(';').map(str::trim);
        let range = parts.next().unwrap_or_default();
        let mut weight = 1.0;
        let mut parameters = vec![];
        for (name, value) in parts.filter_map(|part| part.split_once('=')) {
            match name.trim() {
                "q" => weight = value.trim().parse().unwrap_or(1.0),
                name => parameters.push((name, value.trim().trim_matches('"'))),
            }
        }
        Self { range, parameters, weight }
    }

    fn form(&self, kind: &str) -> Option<Form> {
        match self.range {
            "*/*" | "text/*" | "text/plain" if !self.parameters.iter().any(|(name, _)| *name == "as") => {
                Some(Form::Text)
            }
            "application/json" => self.version(kind).map(Form::Json),
            "application/yaml" => self.version(kind).map(Form::Yaml),
            _ => None,
        }
    }

    fn version(&self, kind: &str) -> Option<Version> {
        let parameter =
            |wanted| self.parameters.iter().find(|(name, _)| *name == wanted).map(|(_, value)| *value);
        if parameter("g") != Some("config.k8s.io") || parameter("as") != Some(kind) {
            return None;
        }
        match parameter("v")? {
            "v1beta1" => Some(Version::V1Beta1),
            "v1alpha1" => Some(Version::V1Alpha1),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structured_formats_must_be_requested_in_full() {
        use Version::{V1Alpha1, V1Beta1};
        #[rustfmt::skip]
        let table = [
            ("",                                                                 Some(Form::Text)),
            ("*/*",                                                              Some(Form::Text)),
            ("text/plain",                                                       Some(Form::Text)),
            ("text/html",                                                        None),
            ("text/html,*/*;q=0.8",                                              Some(Form::Text)),
            ("application/json",                                                 None),
            ("application/json;v=v1beta1;g=config.k8s.io;as=Statusz",            Some(Form::Json(V1Beta1))),
            ("application/json; v=v1alpha1; g=config.k8s.io; as=Statusz",        Some(Form::Json(V1Alpha1))),
            ("application/yaml;v=v1beta1;g=config.k8s.io;as=Statusz",            Some(Form::Yaml(V1Beta1))),
            ("application/json;v=v9;g=config.k8s.io;as=Statusz",                 None),
            ("application/json;v=v1beta1;g=config.k8s.io;as=Flagz",              None),
            ("application/cbor;v=v1beta1;g=config.k8s.io;as=Statusz",            None),
            ("text/plain;q=0.5, application/json;v=v1beta1;g=config.k8s.io;as=Statusz", Some(Form::Json(V1Beta1))),
            ("application/json;v=v1beta1;g=config.k8s.io;as=Statusz;q=0, */*",   Some(Form::Text)),
            (";;;=,q=",                                                          None),
        ];
        for (accept, want) in table {
            assert_eq!(negotiate(accept, "Statusz"), want, "{accept:?}");
        }
    }
}
