//! The file of `--cloud-config`. It is read at the start.

use std::collections::BTreeSet;
use std::num::NonZeroU16;
use std::path::PathBuf;
use std::str::FromStr;

use flyball_cloud::kit::http::{Http, OpenError};
use flyball_cloud::kit::{ApiAddress, Checked, Form, Written};
use flyball_runtime::Metrics;
use serde::Deserialize;
use smol_str::SmolStr;

use crate::query::Dialect;

/// Where a machine asks for its metadata.
const METADATA: &str = "http://169.254.169.254";

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Config {
    pub region: Written<Region>,
    /// The network of the cluster.
    pub vpc: Written<Vpc>,
    #[serde(default)]
    pub node_names: NodeNames,
    /// `None`: no load balancers.
    #[serde(default)]
    pub load_balancers: Option<LoadBalancers>,
    /// `None`: no routes.
    #[serde(default)]
    pub routes: Option<Routes>,
    /// Addresses to use instead of AWS's own.
    #[serde(default)]
    pub endpoints: Endpoints,
    /// Certificate authorities of those endpoints; those of this machine if absent.
    #[serde(default)]
    pub authorities_file: Option<PathBuf>,
}

/// What kubelets call their Nodes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub enum NodeNames {
    /// As `ip-10-0-0-1.eu-central-1.compute.internal`.
    #[default]
    #[serde(rename = "privateDNSName")]
    PrivateDns,
    /// As `i-0123456789abcdef0`.
    #[serde(rename = "instanceID")]
    InstanceId,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct LoadBalancers {
    /// Where they are, one for each zone; if empty, subnets that have a tag for that.
    pub subnets: Vec<Written<Subnet>>,
    pub scheme: Scheme,
    /// Where a node says whether it takes part, for Services of `externalTrafficPolicy: Cluster`.
    pub health_check: HealthCheck,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scheme {
    #[default]
    InternetFacing,
    Internal,
}

impl Scheme {
    /// As AWS writes it.
    pub fn name(self) -> &'static str {
        match self {
            Self::InternetFacing => "internet-facing",
            Self::Internal => "internal",
        }
    }
}

/// A page that answers 200 on nodes that take part.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct HealthCheck {
    pub port: NonZeroU16,
    pub path: Written<PagePath>,
}

const KUBE_PROXY: NonZeroU16 = NonZeroU16::new(10256).expect("a port");

/// That of kube-proxy, which fails on nodes that are about to be deleted.
impl Default for HealthCheck {
    fn default() -> Self {
        Self { port: KUBE_PROXY, path: Written(PagePath("/healthz".into())) }
    }
}

/// There is nothing to say about routes but that there are some.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Routes {}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct Endpoints {
    pub ec2: Option<Written<ApiAddress>>,
    pub elasticloadbalancing: Option<Written<ApiAddress>>,
    pub sts: Option<Written<ApiAddress>>,
    pub metadata: Option<Written<ApiAddress>>,
}

impl Checked for Config {
    fn problem(&self) -> Option<String> {
        let balancers = self.load_balancers.as_ref()?;
        let mut seen = BTreeSet::new();
        let twice = balancers.subnets.iter().find(|subnet| !seen.insert(&subnet.0.0))?;
        Some(format!("loadBalancers.subnets has {} twice; it must have one for each zone", twice.0.0))
    }
}

impl Config {
    /// A client for an API, without credentials.
    pub(crate) fn http(&self, dialect: &Dialect, metrics: &Metrics) -> Result<Http, OpenError> {
        let endpoint = match dialect.service {
            "ec2" => &self.endpoints.ec2,
            "sts" => &self.endpoints.sts,
            _ => &self.endpoints.elasticloadbalancing,
        };
        let (service, region) = (dialect.service, &self.region.0.0);
        let domain = if region.starts_with("cn-") { "amazonaws.com.cn" } else { "amazonaws.com" };
        let address = match endpoint {
            Some(address) => address.0.0.clone(),
            None => format!("https://{service}.{region}.{domain}"),
        };
        let http = Http::new(service, &address, metrics)?;
        match &self.authorities_file {
            Some(file) => http.with_authorities(file),
            None => Ok(http),
        }
    }

    pub(crate) fn metadata(&self) -> &str {
        self.endpoints.metadata.as_ref().map_or(METADATA, |address| &address.0.0)
    }
}

/// The name of a region.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Region(pub SmolStr);

impl FromStr for Region {
    type Err = ();
    fn from_str(text: &str) -> Result<Self, ()> {
        let is_plain = |part: &str| {
            !part.is_empty() && part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
        };
        let has_number = text.ends_with(|c: char| c.is_ascii_digit());
        let is_region = text.split('-').count() > 2 && text.split('-').all(is_plain) && has_number;
        is_region.then(|| Self(text.into())).ok_or(())
    }
}

impl Form for Region {
    const EXAMPLE: &'static str = "a region such as eu-central-1";
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vpc(pub SmolStr);

impl FromStr for Vpc {
    type Err = ();
    fn from_str(text: &str) -> Result<Self, ()> {
        is_id(text, "vpc-").then(|| Self(text.into())).ok_or(())
    }
}

impl Form for Vpc {
    const EXAMPLE: &'static str = "the ID of a VPC such as vpc-0123456789abcdef0";
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subnet(pub SmolStr);

impl FromStr for Subnet {
    type Err = ();
    fn from_str(text: &str) -> Result<Self, ()> {
        is_id(text, "subnet-").then(|| Self(text.into())).ok_or(())
    }
}

impl Form for Subnet {
    const EXAMPLE: &'static str = "the ID of a subnet such as subnet-0123456789abcdef0";
}

/// The path of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PagePath(pub SmolStr);

impl FromStr for PagePath {
    type Err = ();
    fn from_str(text: &str) -> Result<Self, ()> {
        let is_path = text.starts_with('/') && !text.contains(char::is_whitespace);
        is_path.then(|| Self(text.into())).ok_or(())
    }
}

impl Form for PagePath {
    const EXAMPLE: &'static str = "a path such as /healthz";
}

/// Whether a text is an ID of AWS: a prefix and a hexadecimal number.
pub(crate) fn is_id(text: &str, prefix: &str) -> bool {
    let is_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    text.strip_prefix(prefix).is_some_and(|number| !number.is_empty() && number.bytes().all(is_hex))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use flyball_cloud::kit::{ConfigFile, parse};

    use super::*;

    const HEAD: &str = "region: eu-central-1\nvpc: vpc-0a\n";

    #[test]
    fn mistakes_are_named_with_their_line_and_what_would_be_right() {
        #[rustfmt::skip]
        let table = [
            ("vpc: vpc-0a\n",                                         ":1: ", "missing field `region`"),
            ("region: eu-central-1\n",                                ":1: ", "missing field `vpc`"),
            ("vpc: vpc-0a\nregion: Frankfurt\n",                      ":2: ", "\"Frankfurt\" is not a region such as eu-central-1"),
            ("vpc: vpc-0a\nregion: eu-central-1a\n",                  ":2: ", "\"eu-central-1a\" is not a region such as eu-central-1"),
            ("region: eu-central-1\nvpc: main\n",                     ":2: ", "\"main\" is not the ID of a VPC such as vpc-0123456789abcdef0"),
            ("HEADnodeNames: hostname\n",                             ":3: ", "unknown variant `hostname`, expected `privateDNSName` or `instanceID`"),
            ("HEADloadBalancer: {}\n",                                ":3: ", "unknown field `loadBalancer`"),
            ("HEADloadBalancers:\n  subnets:\n  - vpc-0a\n",          ":5: ", "\"vpc-0a\" is not the ID of a subnet such as subnet-"),
            ("HEADloadBalancers:\n  scheme: public\n",                ":4: ", "unknown variant `public`, expected `internet-facing` or `internal`"),
            ("HEADloadBalancers:\n  subnets: [subnet-1, subnet-1]\n", ": ",   "loadBalancers.subnets has subnet-1 twice; it must have one for each zone"),
            ("HEADloadBalancers:\n  healthCheck: {port: 70000}\n",    ":4: ", "expected a nonzero u16"),
            ("HEADloadBalancers:\n  healthCheck: {port: 0}\n",        ":4: ", "expected a nonzero u16"),
            ("HEADloadBalancers:\n  healthCheck: {path: healthz}\n",  ":4: ", "\"healthz\" is not a path such as /healthz"),
            ("HEADroutes: {tables: [rtb-1]}\n",                       ":3: ", "unknown field `tables`"),
            ("HEADendpoints:\n  ec2: localhost:5000\n",               ":4: ", "\"localhost:5000\" is not the address of an API such as https://"),
        ];
        for (text, line, want) in table {
            let text = text.replace("HEAD", HEAD);
            let file = tempfile::NamedTempFile::new().unwrap();
            fs::write(file.path(), &text).unwrap();
            let error = ConfigFile::<Config>::open(file.path()).map(|_| ()).expect_err(&text).to_string();
            let start = format!("{}{line}", file.path().display());
            assert!(error.starts_with(&start) && error.contains(want), "{text}: {error}");
        }
    }

    /// The lines of a text that are indented by four spaces, from the first that starts like this.
    fn indented(text: &str, start: &str) -> String {
        let lines = text.lines().map(|line| line.strip_prefix("    ").unwrap_or(line));
        let lines = lines.skip_while(|line| !line.starts_with(start));
        lines.take_while(|line| !line.is_empty() && *line != "---").map(|line| format!("{line}\n")).collect()
    }

    #[test]
    fn the_files_in_the_documentation_and_in_the_manifest_are_valid() {
        let documented = indented(include_str!("../../../docs/aws.md"), "region: ");
        let config: Config = parse(&documented).unwrap();
        assert_eq!(config.load_balancers.unwrap().subnets.len(), 2);
        let deployed = indented(include_str!("../../../deploy/cloud/aws.yaml"), "region: ");
        let config: Config = parse(&deployed).unwrap();
        assert!(config.load_balancers.is_some_and(|balancers| balancers == LoadBalancers::default()));
    }

    #[test]
    fn an_api_is_in_its_region_unless_the_file_says_otherwise() {
        use crate::query::{EC2, ELB, STS};
        let config: Config = parse(&format!("{HEAD}endpoints: {{ec2: 'http://127.0.0.1:5000'}}\n")).unwrap();
        let china: Config = parse("region: cn-north-1\nvpc: vpc-0a\n").unwrap();
        #[rustfmt::skip]
        let table = [
            (&config, &EC2, "\"http://127.0.0.1:5000\""),
            (&config, &ELB, "\"https://elasticloadbalancing.eu-central-1.amazonaws.com\""),
            (&config, &STS, "\"https://sts.eu-central-1.amazonaws.com\""),
            (&china,  &EC2, "\"https://ec2.cn-north-1.amazonaws.com.cn\""),
        ];
        for (config, dialect, want) in table {
            let http = format!("{:?}", config.http(dialect, &Metrics::default()).unwrap());
            assert!(http.contains(want), "{want}: {http}");
        }
        assert_eq!(config.metadata(), "http://169.254.169.254");
    }
}
