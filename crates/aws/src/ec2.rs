//! What is read from EC2 and changed there: machines, subnets, route tables.

use std::net::IpAddr;

use ipnet::IpNet;
use smol_str::SmolStr;

use crate::config::{Config, NodeNames, Scheme, is_id};
use crate::error::ApiError;
use crate::query::{Api, Parameters};
use crate::xml::Element;

/// How many machines, subnets or route tables a page has.
const PAGE: usize = 100;
/// How many values a filter may have.
const MOST_VALUES: usize = 200;
/// The states of machines that are not gone.
const PRESENT: [&str; 5] = ["pending", "running", "shutting-down", "stopping", "stopped"];

#[derive(Debug, Clone)]
pub(crate) struct Ec2 {
    api: Api,
    vpc: SmolStr,
    names: NodeNames,
}

/// A machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Instance {
    pub id: SmolStr,
    /// `pending`, `running`, `shutting-down`, `terminated`, `stopping` or `stopped`.
    pub state: SmolStr,
    pub type_: SmolStr,
    pub zone: SmolStr,
    pub private_dns: SmolStr,
    pub public_dns: SmolStr,
    pub private_ip: SmolStr,
    pub public_ip: SmolStr,
    /// IPv6 addresses of its first interface.
    pub ipv6: Vec<SmolStr>,
    /// Whether packets are dropped that are neither from nor to its own addresses.
    pub is_checked: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subnet {
    pub id: SmolStr,
    pub zone: SmolStr,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteTable {
    pub id: SmolStr,
    pub routes: Vec<TableRoute>,
}

/// A route in a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableRoute {
    pub destination: IpNet,
    pub target: Target,
    /// Its target is stopped, terminated or gone.
    pub is_blackhole: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    Instance(SmolStr),
    /// It had one that is gone.
    Nothing,
    /// A gateway, a peering connection, an interface without a machine and so on. Not ours.
    Other,
}

impl Ec2 {
    pub(crate) fn new(api: Api, config: &Config) -> Self {
        Self { api, vpc: config.vpc.0.0.clone(), names: config.node_names }
    }

    pub(crate) fn vpc(&self) -> &SmolStr {
        &self.vpc
    }

    /// What the Node of a machine is called.
    pub(crate) fn node_name<'a>(&self, instance: &'a Instance) -> &'a SmolStr {
        match self.names {
            NodeNames::PrivateDns => &instance.private_dns,
            NodeNames::InstanceId => &instance.id,
        }
    }

    /// The machine with this ID, gone or not; `None` if AWS does not know it.
    pub(crate) async fn instance(&self, id: &str) -> Result<Option<Instance>, ApiError> {
        let parameters = Parameters::new().list("InstanceId", [id]);
        match self.api.read("DescribeInstances", &parameters).await {
            Ok(answer) => Ok(instances(&answer).into_iter().next()),
            Err(error) if error.code() == "InvalidInstanceID.NotFound" => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The machines whose Node has this name. There should be one.
    pub(crate) async fn named(&self, node: &str) -> Result<Vec<Instance>, ApiError> {
        let filter = match self.names {
            NodeNames::PrivateDns => "private-dns-name",
            NodeNames::InstanceId => "instance-id",
        };
        let parameters = Parameters::new()
            .filter(1, "vpc-id", [&self.vpc])
            .filter(2, "instance-state-name", PRESENT)
            .filter(3, filter, [node]);
        self.list_instances(parameters).await
    }

    /// Those of these machines that are not gone.
    pub(crate) async fn present(&self, ids: &[SmolStr]) -> Result<Vec<Instance>, ApiError> {
        let mut all = vec![];
        for ids in ids.chunks(MOST_VALUES) {
            let parameters =
                Parameters::new().filter(1, "instance-state-name", PRESENT).filter(2, "instance-id", ids);
            all.extend(self.list_instances(parameters).await?);
        }
        Ok(all)
    }

    async fn list_instances(&self, parameters: Parameters) -> Result<Vec<Instance>, ApiError> {
        let parameters = parameters.with("MaxResults", PAGE);
        Ok(self.api.pages("DescribeInstances", &parameters).await?.iter().flat_map(instances).collect())
    }

    /// Lets packets for pods pass.
    pub(crate) async fn stop_checking(&self, instance: &str) -> Result<(), ApiError> {
        let parameters =
            Parameters::new().with("InstanceId", instance).with("SourceDestCheck.Value", "false");
        self.api.write("ModifyInstanceAttribute", &parameters).await.map(drop)
    }

    /// The subnets that are marked for load balancers, by ID.
    pub(crate) async fn balancer_subnets(&self, scheme: Scheme) -> Result<Vec<Subnet>, ApiError> {
        let parameters = Parameters::new()
            .filter(1, "vpc-id", [&self.vpc])
            .filter(2, "tag-key", [subnet_tag(scheme)])
            .with("MaxResults", PAGE);
        let pages = self.api.pages("DescribeSubnets", &parameters).await?;
        let mut subnets: Vec<Subnet> =
            pages.iter().flat_map(|page| page.list("subnetSet").map(subnet)).collect();
        subnets.sort_unstable_by(|a, b| a.id.cmp(&b.id));
        Ok(subnets)
    }

    /// The route tables of the network that have a tag of the cluster.
    pub(crate) async fn route_tables(&self, cluster: &str) -> Result<Vec<RouteTable>, ApiError> {
        let parameters = Parameters::new()
            .filter(1, "vpc-id", [&self.vpc])
            .filter(2, "tag-key", [cluster_tag(cluster)])
            .with("MaxResults", PAGE);
        let pages = self.api.pages("DescribeRouteTables", &parameters).await?;
        Ok(pages.iter().flat_map(|page| page.list("routeTableSet").map(route_table)).collect())
    }

    pub(crate) async fn create_route(&self, table: &str, to: &IpNet, instance: &str) -> Result<(), ApiError> {
        self.api.write("CreateRoute", &route(table, to).with("InstanceId", instance)).await.map(drop)
    }

    pub(crate) async fn replace_route(
        &self,
        table: &str,
        to: &IpNet,
        instance: &str,
    ) -> Result<(), ApiError> {
        self.api.write("ReplaceRoute", &route(table, to).with("InstanceId", instance)).await.map(drop)
    }

    /// Succeeds if there is none.
    pub(crate) async fn delete_route(&self, table: &str, to: &IpNet) -> Result<(), ApiError> {
        match self.api.write("DeleteRoute", &route(table, to)).await {
            Err(error) if error.code() == "InvalidRoute.NotFound" => Ok(()),
            result => result.map(drop),
        }
    }
}

/// The tag that says to which cluster something belongs.
pub(crate) fn cluster_tag(cluster: &str) -> String {
    format!("kubernetes.io/cluster/{cluster}")
}

/// The tag of subnets for load balancers.
pub(crate) fn subnet_tag(scheme: Scheme) -> &'static str {
    match scheme {
        Scheme::InternetFacing => "kubernetes.io/role/elb",
        Scheme::Internal => "kubernetes.io/role/internal-elb",
    }
}

/// The ID in a provider ID of ours, such as `aws:///eu-central-1a/i-0123456789abcdef0`.
pub(crate) fn instance_id(provider_id: &str) -> Option<&str> {
    let (_, id) = provider_id.strip_prefix("aws://")?.rsplit_once('/')?;
    is_id(id, "i-").then_some(id)
}

fn route(table: &str, to: &IpNet) -> Parameters {
    let name = match to {
        IpNet::V4(_) => "DestinationCidrBlock",
        IpNet::V6(_) => "DestinationIpv6CidrBlock",
    };
    Parameters::new().with("RouteTableId", table).with(name, to)
}

fn instances(answer: &Element) -> Vec<Instance> {
    let reservations = answer.list("reservationSet");
    reservations.flat_map(|reservation| reservation.list("instancesSet")).map(instance).collect()
}

fn instance(item: &Element) -> Instance {
    let text = |path: &str| SmolStr::from(item.text(path));
    let mut interfaces = item.list("networkInterfaceSet");
    let is_first = |interface: &&Element| interface.text("attachment/deviceIndex") == "0";
    let first = interfaces.find(is_first);
    let ipv6 = first.into_iter().flat_map(|interface| interface.list("ipv6AddressesSet"));
    let ipv6 = ipv6.map(|address| address.text("ipv6Address"));
    Instance {
        id: text("instanceId"),
        state: text("instanceState/name"),
        type_: text("instanceType"),
        zone: text("placement/availabilityZone"),
        private_dns: text("privateDnsName"),
        public_dns: text("dnsName"),
        private_ip: text("privateIpAddress"),
        public_ip: text("ipAddress"),
        ipv6: ipv6.filter(|address| address.parse::<IpAddr>().is_ok()).map(SmolStr::from).collect(),
        is_checked: item.text("sourceDestCheck") == "true",
    }
}

fn subnet(item: &Element) -> Subnet {
    Subnet { id: item.text("subnetId").into(), zone: item.text("availabilityZone").into() }
}

fn route_table(item: &Element) -> RouteTable {
    let routes = item.list("routeSet").filter_map(|route| {
        let destination =
            ["destinationCidrBlock", "destinationIpv6CidrBlock"].into_iter().find_map(|name| {
                // Prefix lists have neither.
                route.text(name).parse().ok()
            })?;
        let is_blackhole = route.text("state") == "blackhole";
        Some(TableRoute { destination, target: target(route, is_blackhole), is_blackhole })
    });
    RouteTable { id: item.text("routeTableId").into(), routes: routes.collect() }
}

fn target(route: &Element, is_blackhole: bool) -> Target {
    const OTHERS: [&str; 8] = [
        "gatewayId",
        "natGatewayId",
        "egressOnlyInternetGatewayId",
        "transitGatewayId",
        "vpcPeeringConnectionId",
        "localGatewayId",
        "carrierGatewayId",
        "coreNetworkArn",
    ];
    let instance = route.text("instanceId");
    let is_made = route.text("origin") == "CreateRoute";
    let has_other = OTHERS.iter().any(|name| !route.text(name).is_empty());
    match () {
        () if !is_made || has_other => Target::Other,
        () if !instance.is_empty() => Target::Instance(instance.into()),
        () if is_blackhole => Target::Nothing,
        () => Target::Other,
    }
}

/// Reads an answer in all the ways in which we read one, for fuzz targets.
pub(crate) fn read(answer: &Element) {
    let _ = instances(answer);
    answer.list("subnetSet").for_each(|item| drop(subnet(item)));
    answer.list("routeTableSet").for_each(|item| drop(route_table(item)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instance_id_is_the_last_part_of_a_provider_id_of_ours() {
        #[rustfmt::skip]
        let table = [
            ("aws:///eu-central-1a/i-0a1b", Some("i-0a1b")),
            ("aws:///i-0a1b",               Some("i-0a1b")),
            ("aws:///eu-central-1a/web",    None),
            ("aws:///eu-central-1a/i-",     None),
            ("gce:///eu-central-1a/i-0a1b", None),
            ("i-0a1b",                      None),
            ("",                            None),
        ];
        for (provider_id, want) in table {
            assert_eq!(instance_id(provider_id), want, "{provider_id}");
        }
    }

    #[test]
    fn a_route_is_ours_if_its_target_is_or_was_a_machine() {
        #[rustfmt::skip]
        let table = [
            ("<instanceId>i-1</instanceId><networkInterfaceId>eni-1</networkInterfaceId><state>active</state>",    Target::Instance("i-1".into())),
            ("<instanceId>i-1</instanceId><state>blackhole</state>",                                             Target::Instance("i-1".into())),
            ("<networkInterfaceId>eni-1</networkInterfaceId><state>blackhole</state>",                           Target::Nothing),
            ("<networkInterfaceId>eni-1</networkInterfaceId><state>active</state>",                              Target::Other),
            ("<natGatewayId>nat-1</natGatewayId><state>blackhole</state>",                                       Target::Other),
            ("<vpcPeeringConnectionId>pcx-1</vpcPeeringConnectionId><state>active</state>",                      Target::Other),
        ];
        for (inside, want) in table {
            let text = format!(
                "<R><routeTableId>rtb-1</routeTableId><routeSet>\
                 <item><destinationCidrBlock>10.244.0.0/24</destinationCidrBlock><origin>CreateRoute</origin>{inside}</item>\
                 <item><destinationPrefixListId>pl-1</destinationPrefixListId></item></routeSet></R>"
            );
            let table = route_table(&Element::parse(&text).unwrap());
            assert_eq!(table.routes.len(), 1);
            assert_eq!(table.routes[0].target, want, "{inside}");
            assert_eq!(table.routes[0].is_blackhole, inside.contains("blackhole"), "{inside}");
        }
        let local = "<R><routeSet><item><destinationCidrBlock>10.0.0.0/16</destinationCidrBlock><gatewayId>local</gatewayId>\
                     <origin>CreateRouteTable</origin></item></routeSet></R>";
        assert_eq!(route_table(&Element::parse(local).unwrap()).routes[0].target, Target::Other);
    }

    #[test]
    fn the_addresses_of_a_machine_are_those_of_its_first_interface() {
        let text = "<item><instanceId>i-1</instanceId><instanceState><code>16</code><name>running</name></instanceState>\
            <sourceDestCheck>true</sourceDestCheck><privateIpAddress>10.0.0.1</privateIpAddress><networkInterfaceSet>\
            <item><attachment><deviceIndex>1</deviceIndex></attachment><ipv6AddressesSet><item><ipv6Address>2001:db8::2</ipv6Address></item></ipv6AddressesSet></item>\
            <item><attachment><deviceIndex>0</deviceIndex></attachment><ipv6AddressesSet><item><ipv6Address>2001:db8::1</ipv6Address></item></ipv6AddressesSet></item>\
            </networkInterfaceSet></item>";
        let instance = instance(&Element::parse(text).unwrap());
        assert_eq!(
            (instance.id.as_str(), instance.state.as_str(), instance.is_checked),
            ("i-1", "running", true)
        );
        assert_eq!(
            (instance.private_ip.as_str(), &*instance.ipv6),
            ("10.0.0.1", &["2001:db8::1".into()][..])
        );
    }
}
