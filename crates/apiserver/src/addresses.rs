//! Addresses and node ports of services. An address is taken when an IPAddress object of its name exists; node ports are
//! read from the services.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::ops::RangeInclusive;

use ipnet::IpNet;
use parking_lot::Mutex;
use rand::Rng as _;
use serde_json::{Value, json};

use crate::error::ApiError;
use crate::invalid::Cause;
use crate::kinds::service;
use crate::life::{DeleteOptions, Ops, at_once};
use crate::meta;
use crate::options::Options;
use crate::resource::Resource;
use crate::server::Inner;
use crate::store::{Key, ShelfId};

/// Who manages the addresses of Services, as in the label of each.
const ALLOCATOR: &str = "ipallocator.k8s.io";
const GROUP: &str = "networking.k8s.io";
/// Random addresses or ports that are tried before all are searched in order.
const GUESSES: usize = 64;

pub struct Addresses {
    ranges: Vec<IpNet>,
    node_ports: RangeInclusive<u16>,
    ports: Mutex<BTreeMap<u16, usize>>,
}

impl Addresses {
    pub fn new(options: &Options) -> Self {
        let ports = Mutex::new(BTreeMap::new());
        Self { ranges: options.service_cidrs.clone(), node_ports: options.node_ports.clone(), ports }
    }

    /// Reads the allocated node ports from the stored services.
    pub fn load(&self, server: &Inner) {
        let mut ports = self.ports.lock();
        ports.clear();
        for entry in server.store.all(&ShelfId::new("", "services"), None) {
            for port in held_ports(&entry.value()) {
                *ports.entry(port).or_default() += 1;
            }
        }
    }

    /// Releases addresses whose service was never stored, because the process died between the two writes.
    pub(crate) fn repair(server: &Inner) {
        let lost = server.store.all(&ShelfId::new(GROUP, "ipaddresses"), None).into_iter().filter(|entry| {
            let address = entry.value();
            let parent = &address["spec"]["parentRef"];
            let text = |field: &str| parent[field].as_str().unwrap_or_default();
            let service = Key::new(text("namespace"), text("name"));
            address["metadata"]["labels"]["ipaddress.kubernetes.io/managed-by"] == ALLOCATOR
                && text("resource") == "services"
                && server.store.get(&ShelfId::new("", "services"), &service).is_none()
        });
        let lost: Vec<String> = lost.map(|entry| entry.key.name.to_string()).collect();
        give_back(server, &lost, &[]);
    }

    /// The first address of the first range: that of the `kubernetes` service.
    pub fn first(&self) -> Option<IpAddr> {
        self.ranges.first()?.hosts().next()
    }

    fn families(&self) -> Vec<&'static str> {
        self.ranges.iter().map(|range| if range.addr().is_ipv6() { "IPv6" } else { "IPv4" }).collect()
    }

    /// The ranges in use: those that the server was started with, and those of further ServiceCIDRs that are ready.
    fn all_ranges(&self, server: &Inner) -> Vec<IpNet> {
        let mut ranges = self.ranges.clone();
        for entry in server.store.all(&ShelfId::new(GROUP, "servicecidrs"), None) {
            let object = entry.value();
            let conditions = object["status"]["conditions"].as_array();
            let ready =
                conditions.into_iter().flatten().any(|c| c["type"] == "Ready" && c["status"] == "True");
            if !ready || meta::is_deleting(&object) {
                continue;
            }
            let listed = object["spec"]["cidrs"].as_array().into_iter().flatten();
            for range in listed.filter_map(Value::as_str).filter_map(|text| text.parse().ok()) {
                if !ranges.contains(&range) {
                    ranges.push(range);
                }
            }
        }
        ranges
    }
}

/// The allocations of a service that is about to be stored; released unless kept.
#[must_use]
pub struct Claim<'a> {
    server: Option<&'a Inner>,
    ips: Vec<String>,
    ports: Vec<u16>,
    /// Addresses that the service no longer needs; released when the new ones are kept.
    freed_ips: Vec<String>,
    freed_ports: Vec<u16>,
    dry_run: bool,
}

impl Claim<'_> {
    fn none() -> Self {
        Self {
            server: None,
            ips: vec![],
            ports: vec![],
            freed_ips: vec![],
            freed_ports: vec![],
            dry_run: false,
        }
    }

    /// Keeps the allocations, after the service has been stored.
    pub fn keep(mut self) {
        let Some(server) = self.server.filter(|_| !self.dry_run) else { return };
        self.ips.clear();
        self.ports.clear();
        give_back(server, &self.freed_ips, &self.freed_ports);
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        if let Some(server) = self.server {
            let ips: &[String] = if self.dry_run { &[] } else { &self.ips };
            give_back(server, ips, &self.ports);
        }
    }
}

fn give_back(server: &Inner, ips: &[String], ports: &[u16]) {
    if let Some(resource) = server.catalog.get(GROUP, "v1", "ipaddresses") {
        let user = crate::bootstrap::system_user();
        let mut ops = Ops::internal(server, &resource, &user);
        for ip in ips {
            // Another request has removed it.
            let _ = at_once(ops.delete(&Key::new("", ip.as_str()), &DeleteOptions::default()));
        }
    }
    let mut held = server.addresses.ports.lock();
    for port in ports {
        if let Some(count) = held.get_mut(port) {
            *count -= 1;
            if *count == 0 {
                held.remove(port);
            }
        }
    }
}

impl Inner {
    /// Allocates the addresses and ports that a service needs and writes them into it.
    pub fn claim_addresses<'a>(
        &'a self,
        ops: &Ops<'_>,
        old: Option<&Value>,
        service: &mut Value,
    ) -> Result<Claim<'a>, ApiError> {
        if !ops.resource.is("", "services") {
            return Ok(Claim::none());
        }
        service::decide_families(service, &self.addresses.families());
        let mut claim = Claim::none();
        (claim.server, claim.dry_run) = (Some(self), ops.dry_run);
        let name = meta::text(service, "name").to_owned();
        self.claim_ips(ops, old, service, &mut claim)
            .and_then(|()| self.claim_ports(old, service, &mut claim))
            .map_err(|cause| ApiError::invalid(ops.resource.kind_named(&name), &[cause]))?;
        if let Some(old) = old {
            let (now_ips, now_ports) = (held_ips(service), held_ports(service));
            claim.freed_ips = held_ips(old).into_iter().filter(|ip| !now_ips.contains(ip)).collect();
            claim.freed_ports =
                held_ports(old).into_iter().filter(|port| !now_ports.contains(port)).collect();
        }
        Ok(claim)
    }

    /// Releases the addresses and ports of a deleted service, and deletes its endpoints.
    pub fn release_addresses(&self, resource: &Resource, service: &Value) {
        if !resource.is("", "services") {
            return;
        }
        let ports: Vec<u16> = held_ports(service).into_iter().collect();
        give_back(self, &held_ips(service), &ports);
        // Upstream: pkg/registry/core/service/storage, afterDelete: a new service of the name finds no old endpoints.
        if let Some(endpoints) = self.catalog.get("", "v1", "endpoints") {
            let user = crate::bootstrap::system_user();
            let key = Key::new(meta::text(service, "namespace"), meta::text(service, "name"));
            let mut writer = Ops::internal(self, &endpoints, &user);
            let _ = at_once(writer.delete(&key, &DeleteOptions::default()));
        }
    }

    fn claim_ips(
        &self,
        ops: &Ops<'_>,
        old: Option<&Value>,
        service: &mut Value,
        claim: &mut Claim<'_>,
    ) -> Result<(), Cause> {
        let spec = &service["spec"];
        if spec["type"] == "ExternalName" || spec["clusterIP"] == "None" {
            return Ok(());
        }
        let families: Vec<String> = spec["ipFamilies"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect();
        let mut ips = held_ips(service);
        let before = old.map(held_ips).unwrap_or_default();
        for (at, family) in families.iter().enumerate() {
            let parent = json!({
                "group": "", "resource": "services", "namespace": meta::text(service, "namespace"),
                "name": meta::text(service, "name"),
            });
            match ips.get(at).cloned() {
                Some(ip) if before.contains(&ip) => {}
                Some(ip) => {
                    self.take_ip(ops, &ip, family, &parent).map_err(|why| {
                        let detail = format!("failed to allocate IP {ip}: {why}");
                        Cause::invalid("spec.clusterIPs", json!(ips), &detail)
                    })?;
                    claim.ips.push(ip);
                }
                None => {
                    let ip = self.find_ip(ops, family, &parent).ok_or_else(|| {
                        let detail = "failed to allocate a serviceIP: range is full";
                        Cause::invalid("spec.clusterIPs", json!(ips), detail)
                    })?;
                    claim.ips.push(ip.clone());
                    ips.push(ip);
                }
            }
        }
        if let Some(first) = ips.first() {
            service["spec"]["clusterIP"] = json!(first);
            service["spec"]["clusterIPs"] = json!(ips);
        }
        Ok(())
    }

    fn take_ip(&self, ops: &Ops<'_>, ip: &str, family: &str, parent: &Value) -> Result<(), String> {
        let address: IpAddr = ip.parse().map_err(|_| "it is not an address".to_owned())?;
        let ranges = self.addresses.all_ranges(self);
        if !ranges.iter().any(|range| range.contains(&address)) {
            let of_family: Vec<String> = ranges
                .iter()
                .filter(|range| range.addr().is_ipv6() == address.is_ipv6())
                .map(ToString::to_string)
                .collect();
            return Err(format!(
                "the provided IP ({ip}) is not in the valid range. The range of valid IPs is {}",
                of_family.join(",")
            ));
        }
        if ops.dry_run {
            let taken = self.store.get(&ShelfId::new(GROUP, "ipaddresses"), &Key::new("", ip)).is_some();
            return if taken { Err("provided IP is already allocated".to_owned()) } else { Ok(()) };
        }
        let Some(resource) = self.catalog.get(GROUP, "v1", "ipaddresses") else { return Ok(()) };
        let user = crate::bootstrap::system_user();
        let mut writer = Ops::internal(self, &resource, &user);
        let labels = json!({
            "ipaddress.kubernetes.io/ip-family": family, "ipaddress.kubernetes.io/managed-by": ALLOCATOR,
        });
        let object = json!({"metadata": {"name": ip, "labels": labels}, "spec": {"parentRef": parent}});
        let created = writer.decode(object).and_then(|object| at_once(writer.create("", object)));
        match created {
            Ok(_) => Ok(()),
            Err(error) if error.code == 409 => Err("provided IP is already allocated".to_owned()),
            Err(error) => Err(error.message),
        }
    }

    fn find_ip(&self, ops: &Ops<'_>, family: &str, parent: &Value) -> Option<String> {
        let wants_v6 = family == "IPv6";
        for range in self.addresses.all_ranges(self).iter().filter(|range| range.addr().is_ipv6() == wants_v6)
        {
            for _ in 0..GUESSES {
                let ip = random_in(range, &mut *self.rng.lock()).to_string();
                if self.take_ip(ops, &ip, family, parent).is_ok() {
                    return Some(ip);
                }
            }
            let found = range.hosts().map(|ip| ip.to_string()).take(1 << 20);
            for ip in found {
                if self.take_ip(ops, &ip, family, parent).is_ok() {
                    return Some(ip);
                }
            }
        }
        None
    }

    fn claim_ports(
        &self,
        old: Option<&Value>,
        service: &mut Value,
        claim: &mut Claim<'_>,
    ) -> Result<(), Cause> {
        let before = old.map(held_ports).unwrap_or_default();
        let wants = service::wants_node_ports(service);
        let mut mine: BTreeSet<u16> = before.clone();
        let count = service["spec"]["ports"].as_array().map_or(0, Vec::len);
        for at in 0..count {
            let given = service["spec"]["ports"][at]["nodePort"].as_i64().unwrap_or(0);
            if !wants && given == 0 {
                continue;
            }
            let path = format!("spec.ports[{at}].nodePort");
            let port =
                self.claim_port(given, &mut mine, claim).map_err(|why| Cause::invalid(path, given, &why))?;
            service["spec"]["ports"][at]["nodePort"] = json!(port);
        }
        if service::wants_health_check_port(service) {
            let given = service["spec"]["healthCheckNodePort"].as_i64().unwrap_or(0);
            let port = self
                .claim_port(given, &mut mine, claim)
                .map_err(|why| Cause::invalid("spec.healthCheckNodePort", given, &why))?;
            service["spec"]["healthCheckNodePort"] = json!(port);
        }
        Ok(())
    }

    fn claim_port(&self, given: i64, mine: &mut BTreeSet<u16>, claim: &mut Claim<'_>) -> Result<u16, String> {
        let range = &self.addresses.node_ports;
        let mut held = self.addresses.ports.lock();
        let port = if given == 0 {
            let mut rng = self.rng.lock();
            let guess =
                (0..GUESSES).map(|_| rng.random_range(range.clone())).find(|port| !held.contains_key(port));
            let found = guess.or_else(|| range.clone().find(|port| !held.contains_key(port)));
            found.ok_or_else(|| "range is full".to_owned())?
        } else {
            let port = u16::try_from(given).ok().filter(|port| range.contains(port)).ok_or_else(|| {
                let (first, last) = (range.start(), range.end());
                format!("provided port is not in the valid range. The range of valid ports is {first}-{last}")
            })?;
            if mine.contains(&port) {
                return Ok(port);
            }
            if held.contains_key(&port) {
                return Err("provided port is already allocated".to_owned());
            }
            port
        };
        held.insert(port, 1);
        mine.insert(port);
        claim.ports.push(port);
        Ok(port)
    }
}

fn random_in(range: &IpNet, rng: &mut impl rand::Rng) -> IpAddr {
    match range {
        IpNet::V4(net) => {
            let host_bits = 32 - u32::from(net.prefix_len());
            let size: u64 = 1 << host_bits;
            let offset = if size > 3 { rng.random_range(2..size - 1) } else { 1 };
            IpAddr::V4((u32::from(net.network()).wrapping_add(offset as u32)).into())
        }
        IpNet::V6(net) => {
            let host_bits = (128 - u32::from(net.prefix_len())).min(64);
            let last = if host_bits == 64 { u64::MAX } else { (1 << host_bits) - 1 };
            let offset = if last > 2 { rng.random_range(2..=last) } else { 1 };
            IpAddr::V6((u128::from(net.network()).wrapping_add(u128::from(offset))).into())
        }
    }
}

fn held_ips(service: &Value) -> Vec<String> {
    let ips = service["spec"]["clusterIPs"].as_array().into_iter().flatten().filter_map(Value::as_str);
    ips.filter(|ip| *ip != "None" && !ip.is_empty()).map(str::to_owned).collect()
}

fn held_ports(service: &Value) -> BTreeSet<u16> {
    let ports = service["spec"]["ports"].as_array().into_iter().flatten().map(|port| &port["nodePort"]);
    let all = ports.chain(std::iter::once(&service["spec"]["healthCheckNodePort"]));
    all.filter_map(Value::as_u64)
        .filter_map(|port| u16::try_from(port).ok())
        .filter(|port| *port > 0)
        .collect()
}
