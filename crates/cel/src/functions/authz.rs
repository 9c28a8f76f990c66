//! Authorization checks: `authorizer.group('').resource('pods').check('create').allowed()`.

use std::sync::Arc;

use super::{Function, format, overload, text_of};
use crate::error::Error;
use crate::eval::Outcome;
use crate::opaque::{Checker, Opaque};
use crate::value::Value;

/// The authorizer that expressions call.
pub trait Authorize {
    fn decide(&self, question: &Question<'_>) -> Decision;
}

/// The user whose permissions are checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// The user who sent the request.
    Requester,
    ServiceAccount {
        namespace: Arc<str>,
        name: Arc<str>,
    },
}

/// Whether a subject may do something.
#[derive(Debug)]
pub enum Question<'q> {
    Path { subject: &'q Subject, verb: &'q str, path: &'q str },
    Resource { subject: &'q Subject, verb: &'q str, of: &'q ResourceCheck },
}

/// The answer to a [`Question`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Decision {
    pub is_allowed: bool,
    pub reason: String,
    pub error: Option<String>,
}

#[derive(Debug, Clone)]
pub struct PathCheck {
    pub(crate) path: Arc<str>,
}

/// The resource in a check.
#[derive(Debug, Clone, Default)]
pub struct ResourceCheck {
    pub group: String,
    pub resource: String,
    pub subresource: String,
    pub namespace: String,
    pub name: String,
    pub field_selector: String,
    pub label_selector: String,
}

pub(super) fn operation(name: &str) -> Option<Function> {
    Some(match name {
        "path" => |args| match args {
            [Value::Opaque(Opaque::Authorizer(_)), Value::String(path)] if path.trim().is_empty() => {
                Err(Error::new("path must not be empty"))
            }
            [Value::Opaque(Opaque::Authorizer(checker)), Value::String(path)] => {
                let check = PathCheck { path: Arc::from(&**path) };
                Ok(Value::Opaque(Opaque::PathCheck(checker.clone(), check.into())))
            }
            _ => overload(),
        },
        "group" => |args| match args {
            [Value::Opaque(Opaque::Authorizer(checker)), Value::String(group)] => {
                Ok(Value::Opaque(Opaque::GroupCheck(checker.clone(), Arc::from(&**group))))
            }
            _ => overload(),
        },
        "serviceAccount" => service_account,
        "resource" => |args| match args {
            [Value::Opaque(Opaque::GroupCheck(..)), Value::String(resource)]
                if resource.trim().is_empty() =>
            {
                Err(Error::new("resource must not be empty"))
            }
            [Value::Opaque(Opaque::GroupCheck(checker, group)), Value::String(resource)] => {
                let check = ResourceCheck {
                    group: group.to_string(),
                    resource: resource.to_string(),
                    ..ResourceCheck::default()
                };
                Ok(Value::Opaque(Opaque::ResourceCheck(checker.clone(), check.into())))
            }
            _ => overload(),
        },
        "subresource" => |args| narrowed(args, |check, text| check.subresource = text),
        "namespace" => |args| narrowed(args, |check, text| check.namespace = text),
        "name" => |args| narrowed(args, |check, text| check.name = text),
        "fieldSelector" => |args| narrowed(args, |check, text| check.field_selector = text),
        "labelSelector" => |args| narrowed(args, |check, text| check.label_selector = text),
        "check" => check,
        "allowed" => |args| answer(args, |decision| Value::Bool(decision.is_allowed)),
        "reason" => |args| answer(args, |decision| Value::string(decision.reason.as_str())),
        "errored" => |args| answer(args, |decision| Value::Bool(decision.error.is_some())),
        "error" => {
            |args| answer(args, |decision| Value::string(decision.error.as_deref().unwrap_or_default()))
        }
        _ => return None,
    })
}

fn service_account<'a>(args: &mut [Value<'a>]) -> Outcome<'a> {
    let [Value::Opaque(Opaque::Authorizer(checker)), Value::String(namespace), Value::String(name)] = args
    else {
        return overload();
    };
    if !format::is_subdomain(name) {
        return Err(Error::new("Invalid service account name"));
    }
    if !format::is_dns_label(namespace) {
        return Err(Error::new("Invalid service account namespace"));
    }
    let subject = Subject::ServiceAccount { namespace: Arc::from(&**namespace), name: Arc::from(&**name) };
    let authorize = Arc::clone(&checker.authorize);
    Ok(Value::Opaque(Opaque::Authorizer(Checker { authorize, subject })))
}

fn narrowed<'a>(args: &mut [Value<'a>], set: fn(&mut ResourceCheck, String)) -> Outcome<'a> {
    match args {
        [Value::Opaque(Opaque::ResourceCheck(checker, check)), Value::String(text)] => {
            let mut check = ResourceCheck::clone(check);
            set(&mut check, text.to_string());
            Ok(Value::Opaque(Opaque::ResourceCheck(checker.clone(), check.into())))
        }
        _ => overload(),
    }
}

fn check<'a>(args: &mut [Value<'a>]) -> Outcome<'a> {
    let verb = text_of(args.get(1))?;
    let decision = match args.first() {
        Some(Value::Opaque(Opaque::PathCheck(checker, check))) => {
            let question = Question::Path { subject: &checker.subject, verb, path: &check.path };
            checker.authorize.decide(&question)
        }
        Some(Value::Opaque(Opaque::ResourceCheck(checker, check))) => {
            let question = Question::Resource { subject: &checker.subject, verb, of: check };
            checker.authorize.decide(&question)
        }
        _ => return overload(),
    };
    Ok(Value::Opaque(Opaque::Decision(decision.into())))
}

fn answer<'a>(args: &mut [Value<'a>], of: fn(&Decision) -> Value<'static>) -> Outcome<'a> {
    match args {
        [Value::Opaque(Opaque::Decision(decision))] => Ok(of(decision)),
        _ => overload(),
    }
}
