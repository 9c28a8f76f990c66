//! Values without members, which only functions can use: quantities, addresses, URLs, versions, named formats and authorization checks.

use std::fmt;
use std::sync::Arc;

use flyball_api::quantity::Quantity;

use crate::error::Error;
use crate::functions::address::{Cidr, Ip};
use crate::functions::authz::{Authorize, Decision, PathCheck, ResourceCheck, Subject};
use crate::functions::format::NamedFormat;
use crate::functions::semver::Semver;
use crate::functions::url::Url;
use crate::value::Value;

/// A value of one of the types of Kubernetes' libraries.
#[derive(Clone)]
pub enum Opaque<'a> {
    Quantity(Quantity),
    Ip(Ip),
    Cidr(Cidr),
    Url(Arc<Url>),
    Semver(Arc<Semver>),
    Format(&'static NamedFormat),
    Authorizer(Checker<'a>),
    PathCheck(Checker<'a>, Arc<PathCheck>),
    GroupCheck(Checker<'a>, Arc<str>),
    ResourceCheck(Checker<'a>, Arc<ResourceCheck>),
    Decision(Arc<Decision>),
}

/// An authorizer, and the user whose permissions it is asked about.
#[derive(Clone)]
pub struct Checker<'a> {
    pub(crate) authorize: Arc<dyn Authorize + Send + Sync + 'a>,
    pub(crate) subject: Subject,
}

impl<'a> Checker<'a> {
    /// Checks the permissions of the user who sent the request.
    pub fn of_requester(authorize: Arc<dyn Authorize + Send + Sync + 'a>) -> Self {
        Self { authorize, subject: Subject::Requester }
    }
}

impl<'a> Opaque<'a> {
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Self::Quantity(_) => "kubernetes.Quantity",
            Self::Ip(_) => "net.IP",
            Self::Cidr(_) => "net.CIDR",
            Self::Url(_) => "kubernetes.URL",
            Self::Semver(_) => "kubernetes.Semver",
            Self::Format(_) => "kubernetes.NamedFormat",
            Self::Authorizer(_) => "kubernetes.authorization.Authorizer",
            Self::PathCheck(..) => "kubernetes.authorization.PathCheck",
            Self::GroupCheck(..) => "kubernetes.authorization.GroupCheck",
            Self::ResourceCheck(..) => "kubernetes.authorization.ResourceCheck",
            Self::Decision(_) => "kubernetes.authorization.Decision",
        }
    }

    pub(crate) fn size(&self) -> u64 {
        match self {
            Self::Ip(ip) => ip.bytes(),
            Self::Cidr(cidr) => cidr.bytes(),
            _ => 1,
        }
    }

    pub(crate) fn equals(&self, other: &Value<'a>) -> Result<bool, Error> {
        let Value::Opaque(other) = other else { return Err(Error::no_such_overload()) };
        Ok(match (self, other) {
            (Self::Quantity(one), Self::Quantity(other)) => one == other,
            (Self::Ip(one), Self::Ip(other)) => one == other,
            (Self::Cidr(one), Self::Cidr(other)) => one == other,
            (Self::Url(one), Self::Url(other)) => one.to_string() == other.to_string(),
            (Self::Semver(one), Self::Semver(other)) => one.order(other).is_eq(),
            (Self::Format(one), Self::Format(other)) => one.name == other.name,
            _ => return Err(Error::no_such_overload()),
        })
    }
}

impl fmt::Debug for Opaque<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl fmt::Display for Opaque<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Quantity(quantity) => write!(f, "quantity {quantity}"),
            Self::Ip(ip) => write!(f, "ip {ip}"),
            Self::Cidr(cidr) => write!(f, "cidr {cidr}"),
            Self::Url(url) => write!(f, "url {url}"),
            Self::Semver(version) => write!(f, "semver {version}"),
            Self::Format(format) => write!(f, "format {}", format.name),
            other => write!(f, "a {}", other.type_name()),
        }
    }
}
