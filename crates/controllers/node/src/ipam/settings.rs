//! The flags of node IPAM, parsed and validated.

use flyball_runtime::config::Config;
use ipnet::IpNet;

use super::blocks::Blocks;

const DEFAULT_LENGTH_V4: u8 = 24;
const DEFAULT_LENGTH_V6: u8 = 64;
/// An IPv6 cluster CIDR has at most two to the power of this many blocks, as upstream.
const MOST_BITS_V6: u8 = 16;

#[derive(Debug, Clone)]
pub struct Settings {
    /// The cluster CIDRs, in the order of the flag: one, or one of each family.
    pub clusters: Vec<Blocks>,
    /// Service CIDRs, which are not allocated to nodes.
    pub services: Vec<IpNet>,
}

impl Settings {
    /// # Errors
    /// The flag that is invalid, and what would be valid.
    pub fn of(config: &Config) -> Result<Self, String> {
        let text = &config.kube_cloud_shared.cluster_cidr;
        if text.trim().is_empty() {
            return Err("--allocate-node-cidrs needs --cluster-cidr, such as 10.244.0.0/16".to_owned());
        }
        let clusters = cluster_ranges(text)?;
        let lengths = Lengths::of(config, &clusters)?;
        let clusters =
            clusters.into_iter().map(|cluster| divide(cluster, &lengths)).collect::<Result<_, _>>()?;
        let flags = &config.node_ipam_controller;
        // Before the command line is completed, the first flag holds both.
        let services = flags.service_cidr.split(',').chain([flags.secondary_service_cidr.as_str()]);
        let services: Vec<IpNet> = services.filter_map(service_range).collect();
        if let [first, second] = services[..]
            && is_v6(&first) == is_v6(&second)
        {
            return Err(
                "--service-cluster-ip-range: of two ranges one must be IPv4 and the other IPv6".into()
            );
        }
        Ok(Self { clusters, services })
    }
}

/// The CIDRs of `--cluster-cidr`: one, or one of each family.
///
/// # Errors
/// The flag is invalid.
pub fn cluster_ranges(text: &str) -> Result<Vec<IpNet>, String> {
    let range = |text: &str| {
        parse(text).ok_or_else(|| format!("--cluster-cidr: {text:?} is not a range such as 10.244.0.0/16"))
    };
    let ranges = text.trim().split(',').map(range).collect::<Result<Vec<IpNet>, _>>()?;
    match ranges[..] {
        [_] => Ok(ranges),
        [first, second] if is_v6(&first) != is_v6(&second) => Ok(ranges),
        [_, _] => Err("--cluster-cidr: of two ranges one must be IPv4 and the other IPv6".to_owned()),
        _ => Err(format!("--cluster-cidr takes at most two ranges, not {}", ranges.len())),
    }
}

/// As upstream, an invalid Service CIDR is ignored with a warning.
fn service_range(text: &str) -> Option<IpNet> {
    let range = parse(text);
    if range.is_none() && !text.trim().is_empty() {
        tracing::warn!(range = text, "ignoring an invalid --service-cluster-ip-range");
    }
    range
}

/// The prefix lengths of node blocks.
struct Lengths {
    v4: u8,
    v6: u8,
}

impl Lengths {
    fn of(config: &Config, clusters: &[IpNet]) -> Result<Self, String> {
        let flags = &config.node_ipam_controller;
        let given = |flag: &str, value: i32| match u8::try_from(value) {
            Ok(0) => Ok(None),
            Ok(length) => Ok(Some(length)),
            Err(_) => Err(format!("--{flag} must be the length of a prefix, not {value}")),
        };
        let both = given("node-cidr-mask-size", flags.node_cidr_mask_size)?;
        let v4 = given("node-cidr-mask-size-ipv4", flags.node_cidr_mask_size_ipv4)?;
        let v6 = given("node-cidr-mask-size-ipv6", flags.node_cidr_mask_size_ipv6)?;
        let problem = match clusters {
            [_, _] if both.is_some() => "--node-cidr-mask-size cannot be used in a dual-stack cluster",
            [_] if both.is_some() && (v4.is_some() || v6.is_some()) => {
                "--node-cidr-mask-size excludes --node-cidr-mask-size-ipv4 and --node-cidr-mask-size-ipv6"
            }
            [only] if v4.is_some() && is_v6(only) => {
                "--node-cidr-mask-size-ipv4 cannot be used in an IPv6 cluster"
            }
            [only] if v6.is_some() && !is_v6(only) => {
                "--node-cidr-mask-size-ipv6 cannot be used in an IPv4 cluster"
            }
            _ => {
                let v4 = v4.or(both).unwrap_or(DEFAULT_LENGTH_V4);
                return Ok(Self { v4, v6: v6.or(both).unwrap_or(DEFAULT_LENGTH_V6) });
            }
        };
        Err(problem.to_owned())
    }
}

fn divide(cluster: IpNet, lengths: &Lengths) -> Result<Blocks, String> {
    let (length, flag) = match is_v6(&cluster) {
        true => (lengths.v6, "node-cidr-mask-size-ipv6"),
        false => (lengths.v4, "node-cidr-mask-size-ipv4"),
    };
    let shortest = cluster.prefix_len();
    if length < shortest {
        return Err(format!(
            "--cluster-cidr {cluster} is smaller than the /{length} of a node: its prefix may have at most {length} \
             bits, or --{flag} at least {shortest}"
        ));
    }
    if is_v6(&cluster) && length - shortest > MOST_BITS_V6 {
        return Err(format!(
            "--cluster-cidr {cluster} is too large for nodes with a /{length}: --{flag} may exceed its prefix by at \
             most {MOST_BITS_V6} bits"
        ));
    }
    Blocks::new(cluster, length)
        .ok_or_else(|| format!("--{flag}: a node cannot have a /{length} of --cluster-cidr {cluster}"))
}

/// Parses a CIDR as the API does: bits beyond the prefix are dropped, and numbers may have leading zeros.
pub fn parse(text: &str) -> Option<IpNet> {
    let text = text.trim();
    let range: Option<IpNet> = text.parse().ok();
    let range = range.or_else(|| {
        let (address, length) = text.split_once('/')?;
        let plain = |number: &str| number.trim_start_matches('0').to_owned();
        let octets: Vec<String> = address
            .split('.')
            .map(|number| if plain(number).is_empty() { "0".into() } else { plain(number) })
            .collect();
        format!("{}/{length}", octets.join(".")).parse().ok()
    })?;
    Some(range.trunc())
}

pub(super) fn is_v6(range: &IpNet) -> bool {
    matches!(range, IpNet::V6(_))
}
