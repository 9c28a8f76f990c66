//! Routes to the pods of every node, in the route table of the cluster.

use std::collections::{BTreeMap, BTreeSet};

use flyball_cloud::{CloudError, Route, Routes};
use ipnet::IpNet;
use smol_str::{SmolStr, format_smolstr};
use tokio::sync::Semaphore;

use crate::ec2::{Ec2, RouteTable, TableRoute, Target, cluster_tag};
use crate::instances::named;

/// How many routes are changed at once. The controller would change hundreds, and AWS would refuse most.
const AT_ONCE: usize = 8;

pub(crate) struct Table {
    ec2: Ec2,
    /// There are routes for nothing else.
    ranges: Vec<IpNet>,
    changing: Semaphore,
}

/// What has to be done for a route.
#[derive(Debug, PartialEq, Eq)]
enum Change {
    Nothing,
    Create,
    Replace,
}

impl Routes for Table {
    async fn list(&self, cluster: &str) -> Result<Vec<Route>, CloudError> {
        let table = self.table(cluster).await?;
        let ours: Vec<&TableRoute> = table.routes.iter().filter(|route| self.is_ours(route)).collect();
        let targets: BTreeSet<&SmolStr> = ours.iter().filter_map(|route| instance(route)).collect();
        let targets: Vec<SmolStr> = targets.into_iter().cloned().collect();
        let present = self.ec2.present(&targets).await?;
        let names: BTreeMap<&str, &str> =
            present.iter().map(|machine| (&*machine.id, &**self.ec2.node_name(machine))).collect();
        Ok(ours.into_iter().map(|route| shown(route, &names)).collect())
    }

    async fn create(&self, cluster: &str, _: &str, route: &Route) -> Result<(), CloudError> {
        let Route { destination: text, node, .. } = route;
        let problem = || format!("{text:?} is not a range such as 10.244.1.0/24");
        let to: IpNet = text.parse().map_err(|_| CloudError::failed(problem()))?;
        let _turn = self.changing.acquire().await.map_err(CloudError::failed)?;
        let machine = named(&self.ec2, node).await?;
        let table = self.table(cluster).await?;
        let change = change(&table.routes, &self.ranges, &to, &machine.id).map_err(CloudError::failed)?;
        if machine.is_checked {
            self.ec2.stop_checking(&machine.id).await?;
        }
        match change {
            Change::Nothing => {}
            Change::Create => self.ec2.create_route(&table.id, &to, &machine.id).await?,
            Change::Replace => self.ec2.replace_route(&table.id, &to, &machine.id).await?,
        }
        Ok(())
    }

    /// Reads the table again: what has become somebody else's meanwhile stays.
    async fn delete(&self, cluster: &str, route: &Route) -> Result<(), CloudError> {
        let _turn = self.changing.acquire().await.map_err(CloudError::failed)?;
        let table = self.table(cluster).await?;
        let is_it = |found: &&TableRoute| found.destination.to_string() == route.destination;
        if let Some(found) = table.routes.iter().filter(|found| self.is_ours(found)).find(is_it) {
            self.ec2.delete_route(&table.id, &found.destination).await?;
        }
        Ok(())
    }
}

impl Table {
    pub(crate) fn new(ec2: Ec2, ranges: Vec<IpNet>) -> Self {
        Self { ec2, ranges, changing: Semaphore::new(AT_ONCE) }
    }

    async fn table(&self, cluster: &str) -> Result<RouteTable, CloudError> {
        let mut tables = self.ec2.route_tables(cluster).await?;
        match (tables.pop(), tables.is_empty()) {
            (Some(table), true) => Ok(table),
            (last, _) => {
                let ids: Vec<SmolStr> = tables.into_iter().chain(last).map(|table| table.id).collect();
                Err(CloudError::failed(format!(
                    "{} route tables of {} have the tag {}, [{}]; exactly one must have it",
                    ids.len(),
                    self.ec2.vpc(),
                    cluster_tag(cluster),
                    ids.join(", ")
                )))
            }
        }
    }

    fn is_ours(&self, route: &TableRoute) -> bool {
        route.target != Target::Other && is_within(&self.ranges, &route.destination)
    }
}

fn is_within(ranges: &[IpNet], destination: &IpNet) -> bool {
    ranges.iter().any(|range| range.contains(destination))
}

fn instance(route: &TableRoute) -> Option<&SmolStr> {
    match &route.target {
        Target::Instance(id) => Some(id),
        _ => None,
    }
}

/// A route of the table as the controller sees it. AWS also calls the route to a machine that is stopped a blackhole; it is kept, since it
/// would be made again.
fn shown(route: &TableRoute, names: &BTreeMap<&str, &str>) -> Route {
    let name = instance(route).and_then(|id| names.get(id.as_str()));
    Route {
        name: format_smolstr!("{}", route.destination),
        node: name.map_or_else(SmolStr::default, |name| (*name).into()),
        node_addresses: None,
        destination: format_smolstr!("{}", route.destination),
        is_blackhole: route.is_blackhole && name.is_none(),
    }
}

/// What has to be done for a route to a machine, or why there can be none. The range is what a kubelet may have written: it must not
/// lead packets astray that are not for pods, or for those of another node.
fn change(routes: &[TableRoute], ranges: &[IpNet], to: &IpNet, machine: &str) -> Result<Change, String> {
    if !is_within(ranges, to) {
        let ranges: Vec<String> = ranges.iter().map(IpNet::to_string).collect();
        return Err(format!(
            "{to} is not within --cluster-cidr, {}; the podCIDRs of its Node must be",
            ranges.join(",")
        ));
    }
    // Of other targets, only those within: that of all addresses, or of a whole network, is less specific on purpose.
    let overlaps = |route: &&TableRoute| {
        let other = &route.destination;
        let is_wider = other.contains(to) && route.target != Target::Other;
        other != to && (to.contains(other) || is_wider)
    };
    if let Some(other) = routes.iter().find(overlaps) {
        return Err(format!("{to} overlaps {}, which there is a route for", other.destination));
    }
    let Some(present) = routes.iter().find(|route| route.destination == *to) else {
        return Ok(Change::Create);
    };
    match &present.target {
        Target::Instance(id) if id == machine => Ok(Change::Nothing),
        Target::Instance(_) | Target::Nothing => Ok(Change::Replace),
        Target::Other => Err(format!(
            "there is a route for {to} that is not ours; delete it, or give the node another range"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> TableRoute {
        let (destination, target) = text.split_once('>').unwrap();
        let (target, is_blackhole) = target.strip_suffix('!').map_or((target, false), |rest| (rest, true));
        let target = match target {
            "" => Target::Nothing,
            "other" => Target::Other,
            id => Target::Instance(id.into()),
        };
        TableRoute { destination: destination.parse().unwrap(), target, is_blackhole }
    }

    #[test]
    fn a_route_is_made_only_within_the_cluster_and_never_over_that_of_somebody_else() {
        #[rustfmt::skip]
        let table = [
            // routes                                        range                change
            ("",                                             "10.244.1.0/24",   Ok(Change::Create)),
            ("",                                             "2001:db8:1::/64", Ok(Change::Create)),
            ("0.0.0.0/0>other 10.0.0.0/8>other",             "10.244.1.0/24",   Ok(Change::Create)),
            ("10.244.1.0/24>i-1",                            "10.244.1.0/24",   Ok(Change::Nothing)),
            ("10.244.1.0/24>i-1!",                           "10.244.1.0/24",   Ok(Change::Nothing)),
            ("10.244.1.0/24>i-2",                            "10.244.1.0/24",   Ok(Change::Replace)),
            ("10.244.1.0/24>!",                              "10.244.1.0/24",   Ok(Change::Replace)),
            ("10.244.1.0/24>other",                          "10.244.1.0/24",   Err("there is a route for 10.244.1.0/24 that is not ours")),
            ("10.244.1.0/24>i-2",                            "10.244.0.0/16",   Err("10.244.0.0/16 overlaps 10.244.1.0/24")),
            ("10.244.1.0/24>other",                          "10.244.0.0/16",   Err("10.244.0.0/16 overlaps 10.244.1.0/24")),
            ("10.244.0.0/16>i-2",                            "10.244.1.0/24",   Err("10.244.1.0/24 overlaps 10.244.0.0/16")),
            ("",                                             "10.0.0.0/24",     Err("10.0.0.0/24 is not within --cluster-cidr, 10.244.0.0/16,2001:db8::/32")),
            ("",                                             "0.0.0.0/0",       Err("0.0.0.0/0 is not within --cluster-cidr")),
        ];
        let ranges = ["10.244.0.0/16", "2001:db8::/32"].map(|range| range.parse().unwrap());
        for (routes, to, want) in table {
            let routes: Vec<TableRoute> = routes.split_whitespace().map(parsed).collect();
            let found = change(&routes, &ranges, &to.parse().unwrap(), "i-1");
            match (found, want) {
                (Ok(found), Ok(want)) => assert_eq!(found, want, "{routes:?} {to}"),
                (Err(found), Err(want)) => assert!(found.starts_with(want), "{found}"),
                (found, want) => panic!("{routes:?} {to}: {found:?}, not {want:?}"),
            }
        }
    }

    #[test]
    fn a_route_is_a_blackhole_if_its_machine_is_gone_and_not_if_it_is_stopped() {
        #[rustfmt::skip]
        let table = [
            // route               node       blackhole
            ("10.244.1.0/24>i-1",  "node-1",  false),
            ("10.244.1.0/24>i-1!", "node-1",  false),
            ("10.244.1.0/24>i-2!", "",        true),
            ("10.244.1.0/24>!",    "",        true),
            ("10.244.1.0/24>i-2",  "",        false),
        ];
        let names = BTreeMap::from([("i-1", "node-1")]);
        for (route, node, is_blackhole) in table {
            let shown = shown(&parsed(route), &names);
            assert_eq!((shown.node.as_str(), shown.is_blackhole), (node, is_blackhole), "{route}");
            assert_eq!(shown.destination, "10.244.1.0/24");
        }
    }
}
