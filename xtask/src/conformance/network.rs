//! The rig's network: a bridge with the control plane on it, and a cable from it to every node.

use std::net::Ipv4Addr;

use super::command::run_line;
use super::node::Node;

/// All pods; every node gets a part from the controller manager.
pub(crate) const PODS: &str = "10.244.0.0/16";
pub(crate) const SERVICES: &str = "10.96.0.0/16";
/// The control plane's address on the bridge.
pub(crate) const SERVER: Ipv4Addr = Ipv4Addr::new(10, 88, 0, 1);

/// A node's address on the bridge.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Address {
    pub(crate) ip: Ipv4Addr,
}

/// The bridge; nodes are plugged in later.
pub(crate) async fn create_bridge() -> anyhow::Result<()> {
    for line in [
        "ip link set lo up".to_owned(),
        "ip link add rig0 type bridge".to_owned(),
        format!("ip address add {SERVER}/24 dev rig0"),
        "ip link set rig0 up".to_owned(),
        "sysctl -qw net.ipv4.ip_forward=1".to_owned(),
    ] {
        run_line(&line).await?;
    }
    Ok(())
}

/// A cable from the bridge to the node.
pub(crate) async fn plug_in(node: &Node) -> anyhow::Result<()> {
    let (name, holder) = (&node.name, node.holder());
    let inside = format!("nsenter --target {holder} --net --");
    for line in [
        format!("ip link add {name} type veth peer name eth0 netns {holder}"),
        format!("ip link set {name} master rig0 up"),
        format!("{inside} ip link set lo up"),
        format!("{inside} ip address add {}/24 dev eth0", node.address.ip),
        format!("{inside} ip link set eth0 up"),
        format!("{inside} ip route add default via {SERVER}"),
        format!("{inside} sysctl -qw net.ipv4.ip_forward=1"),
        // Traffic between pods of one node passes the rules for services, too.
        format!("{inside} sysctl -qw net.bridge.bridge-nf-call-iptables=1"),
        format!("{inside} sysctl -qw net.ipv4.conf.all.route_localnet=1"),
    ] {
        run_line(&line).await?;
    }
    Ok(())
}

/// Everyone else reaches the pods of this node through it.
pub(crate) async fn route_pods(pods: &str, node: &Node, others: &[&Node]) -> anyhow::Result<()> {
    let route = format!("ip route replace {pods} via {}", node.address.ip);
    run_line(&route).await?;
    for other in others {
        run_line(&format!("nsenter --target {} --net -- {route}", other.holder())).await?;
    }
    Ok(())
}
