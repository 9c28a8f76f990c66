//! The history of a pod template as ControllerRevisions: their data, how a template is found in them, and their names.
//! All of it is API: a controller manager that takes over a cluster must find the existing revisions, or it would
//! replace every pod.

use std::sync::Arc;

use flyball_api::{ControllerRevision, Key, Object, PodTemplate, RawJson, canonical, hash};
use flyball_runtime::plan::Answer;
use flyball_runtime::{Context, ErrorKinds, SyncError, Write};
use serde_json::{Value, json};

/// Names of owners are cut here, so that a revision's name has room for the hash.
const LONGEST_PREFIX: usize = 223;

/// The data of a template's revision: the patch that restores the template, in the bytes that upstream would write.
pub fn data_of(template: &RawJson) -> RawJson {
    let mut template = template.to_value();
    if let Value::Object(fields) = &mut template {
        fields.insert("$patch".into(), "replace".into());
    }
    let text = canonical::to_string_via_float64(&json!({"spec": {"template": template}}));
    // It is JSON, as it was just written.
    RawJson::parse(&text).unwrap_or_default()
}

/// The template that a revision restores; `None` if it holds none that can be read.
pub fn template_of(revision: &ControllerRevision) -> Option<PodTemplate> {
    let mut data = revision.data.to_value();
    let template = data.pointer_mut("/spec/template")?.as_object_mut()?;
    template.remove("$patch");
    PodTemplate::new(RawJson::from_value(&Value::Object(std::mem::take(template)))).ok()
}

/// The hash of a revision's data after its name was found taken `collisions` times.
pub fn hash_of(data: &RawJson, collisions: i32) -> String {
    let bytes = format!("{}{collisions}", data.as_str());
    hash::safe_encode(&hash::fnv32(bytes.as_bytes()).to_string())
}

/// The name of an owner's revision.
pub fn name(owner: &str, hash: &str) -> String {
    // Names are ASCII; one that is not, and is cut within a letter, keeps its length.
    format!("{}-{hash}", owner.get(..LONGEST_PREFIX).unwrap_or(owner))
}

/// Orders a history from the oldest to the latest.
pub fn sort(revisions: &mut [Arc<ControllerRevision>]) {
    revisions.sort_by(|one, two| {
        let rank = |revision: &ControllerRevision| (revision.revision, revision.metadata.creation_timestamp);
        rank(one).cmp(&rank(two)).then_with(|| one.metadata.name.cmp(&two.metadata.name))
    });
}

/// Where data is found in a history.
#[derive(Debug, PartialEq)]
pub enum Place<'a> {
    /// It is the latest revision.
    Latest(&'a Arc<ControllerRevision>),
    /// It is an earlier revision: this is a rollback.
    Earlier(&'a Arc<ControllerRevision>),
    Nowhere,
}

/// Looks data up in a sorted history; of several equal revisions the latest counts.
pub fn place<'a>(sorted: &'a [Arc<ControllerRevision>], data: &RawJson) -> Place<'a> {
    match sorted.iter().rposition(|revision| revision.data == *data) {
        Some(at) if at + 1 == sorted.len() => Place::Latest(&sorted[at]),
        Some(at) => Place::Earlier(&sorted[at]),
        None => Place::Nowhere,
    }
}

/// The number of the next revision.
pub fn next_number(revisions: &[Arc<ControllerRevision>]) -> i64 {
    revisions.iter().map(|revision| revision.revision).max().unwrap_or(0).max(0).saturating_add(1)
}

/// The outcome of an attempt to create a revision.
#[derive(Debug)]
pub enum Created {
    /// A revision with that name and that data exists, created now or by an earlier attempt.
    Exists(Arc<ControllerRevision>),
    /// A revision with other data has the name.
    NameTaken,
}

/// The creation of a revision. What its answer means is said by [`Created::of`].
pub fn creation(revision: &ControllerRevision) -> Write {
    Write::create_exact(revision).why("the template is new").ignore(ErrorKinds::ALREADY_EXISTS)
}

impl Created {
    /// `existing` is the revision that has the name, read after the server has answered that there is one. An earlier attempt may
    /// have created it: then it has the same data.
    pub fn of(revision: ControllerRevision, answer: &Answer, existing: Option<ControllerRevision>) -> Self {
        match (answer, existing) {
            (Answer::Written(_), _) => Self::Exists(as_written(revision, answer).into()),
            (Answer::Ignored(_), Some(existing)) if existing.data == revision.data => {
                Self::Exists(existing.into())
            }
            (Answer::Ignored(_), _) => Self::NameTaken,
        }
    }
}

/// Creates a revision. If its name is taken, reads the revision of that name to see whether it is the same.
pub async fn create(cx: &Context, owner: &Key, revision: ControllerRevision) -> Result<Created, SyncError> {
    let answer = cx.executor(owner).perform([creation(&revision)]).await.answer()?;
    let existing = match &answer {
        Answer::Written(_) => None,
        Answer::Ignored(_) => {
            let key = revision.key();
            let read = cx.client.get::<ControllerRevision>(&key).await;
            Some(read.map_err(SyncError::api(format!("reading the revision {key}")))?)
        }
    };
    Ok(Created::of(revision, &answer, existing))
}

/// The deletions of revisions that exceed the limit of a history.
pub fn trim<'a>(obsolete: impl IntoIterator<Item = &'a Arc<ControllerRevision>>) -> Vec<Write> {
    let why = "nothing runs it and newer ones fill the history";
    obsolete.into_iter().map(|revision| Write::delete(&**revision).why(why)).collect()
}

/// The revision with the metadata that the server has returned.
pub fn as_written(revision: ControllerRevision, answer: &Answer) -> ControllerRevision {
    match answer.written() {
        Some(metadata) => ControllerRevision { metadata: metadata.clone(), ..revision },
        None => revision,
    }
}

#[cfg(test)]
mod tests {
    use flyball_api::ObjectMeta;
    use flyball_client::{ApiStatus, Error};

    use super::*;

    fn revision(name: &str, number: i64, data: &str) -> Arc<ControllerRevision> {
        let mut revision = ControllerRevision::default();
        revision.metadata.name = name.into();
        revision.revision = number;
        revision.data = RawJson::parse(data).unwrap();
        Arc::new(revision)
    }

    #[test]
    fn data_is_written_as_go_would() {
        let template = RawJson::parse(
            r#"{"spec":{"terminationGracePeriodSeconds":30,"containers":[{"name":"a","args":["<&>"]}]},"metadata":{"labels":{"app":"db"}}}"#,
        );
        let data = data_of(&template.unwrap());
        assert_eq!(
            data.as_str(),
            r#"{"spec":{"template":{"$patch":"replace","metadata":{"labels":{"app":"db"}},"spec":{"containers":[{"args":["\u003c\u0026\u003e"],"name":"a"}],"terminationGracePeriodSeconds":30}}}}"#
        );
        let stored = ControllerRevision { data, ..ControllerRevision::default() };
        let template = template_of(&stored).unwrap();
        assert_eq!(template.metadata.labels.get("app"), Some("db"));
        assert!(!template.raw().as_str().contains("$patch"));
    }

    #[test]
    fn names_have_room_for_the_hash() {
        assert_eq!(name("db", "abc"), "db-abc");
        assert_eq!(name(&"x".repeat(253), "abc").len(), 223 + 4);
    }

    #[test]
    fn collisions_change_the_hash() {
        let data = RawJson::parse("{}").unwrap();
        assert_ne!(hash_of(&data, 0), hash_of(&data, 1));
    }

    #[test]
    fn a_revision_of_the_name_counts_if_its_data_is_the_same() {
        let new = || ControllerRevision::clone(&revision("a", 2, "1"));
        let written = Answer::Written(Some(Box::new(ObjectMeta {
            name: "a".into(),
            uid: "u".into(),
            ..ObjectMeta::default()
        })));
        let exists =
            Answer::Ignored(Error::Status(Box::new(ApiStatus { code: 409, ..ApiStatus::default() })));
        let other = |data| Some(ControllerRevision::clone(&revision("a", 1, data)));
        #[rustfmt::skip]
        let table = [
            // case                          answer    existing       number and uid, if it exists
            ("created",                      &written, None,          Some((2, "u"))),
            ("created by an earlier sync",   &exists,  other("1"),    Some((1, ""))),
            ("another template has it",      &exists,  other("2"),    None),
        ];
        for (case, answer, existing, want) in table {
            let found = match Created::of(new(), answer, existing) {
                Created::Exists(revision) => Some((revision.revision, revision.uid().to_string())),
                Created::NameTaken => None,
            };
            assert_eq!(found, want.map(|(number, uid)| (number, uid.to_owned())), "{case}");
        }
    }

    #[test]
    fn a_template_is_found_wherever_it_stands() {
        let mut history = vec![revision("c", 3, "3"), revision("a", 1, "1"), revision("b", 2, "2")];
        sort(&mut history);
        let data = |text| RawJson::parse(text).unwrap();
        assert_eq!(place(&history, &data("3")), Place::Latest(&history[2]));
        assert_eq!(place(&history, &data("1")), Place::Earlier(&history[0]));
        assert_eq!(place(&history, &data("4")), Place::Nowhere);
        assert_eq!((next_number(&history), next_number(&[])), (4, 1));
    }
}
