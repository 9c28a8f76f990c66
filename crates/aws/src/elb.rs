//! What is read from Elastic Load Balancing (version 2) and changed there.

use std::collections::{BTreeMap, BTreeSet};

use smol_str::SmolStr;

use crate::balancers::plan::{Group, Health, Listener, Protocol, Target};
use crate::config::Scheme;
use crate::error::ApiError;
use crate::query::{Api, Parameters};
use crate::xml::Element;

/// How many things the tags may be asked for at once.
const MOST_TAGGED: usize = 20;
/// How many targets are registered at once.
const MOST_TARGETS: usize = 200;
/// The largest page.
const PAGE: usize = 400;

#[derive(Debug, Clone)]
pub(crate) struct Elb {
    pub(crate) api: Api,
}

/// A load balancer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Balancer {
    pub(crate) arn: String,
    pub(crate) host: SmolStr,
    pub(crate) scheme: String,
    /// `provisioning`, `active`, `active_impaired` or `failed`.
    pub(crate) state: String,
    pub(crate) reason: String,
}

/// Tags of several things, by ARN.
pub(crate) type Tags = BTreeMap<String, BTreeMap<String, String>>;

impl Elb {
    pub(crate) fn new(api: Api) -> Self {
        Self { api }
    }

    pub(crate) async fn balancer(&self, name: &str) -> Result<Option<Balancer>, ApiError> {
        let parameters = Parameters::new().list("Names.member", [name]);
        match self.api.read("DescribeLoadBalancers", &parameters).await {
            Ok(answer) => Ok(answer.list("LoadBalancers").next().map(balancer)),
            Err(error) if error.code() == "LoadBalancerNotFound" => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(crate) async fn create_balancer(
        &self,
        name: &str,
        scheme: Scheme,
        subnets: &[SmolStr],
        tags: &[(String, String)],
    ) -> Result<Balancer, ApiError> {
        const ACTION: &str = "CreateLoadBalancer";
        let parameters = Parameters::new()
            .with("Name", name)
            .with("Type", "network")
            .with("Scheme", scheme.name())
            .with("IpAddressType", "ipv4")
            .list("Subnets.member", subnets);
        let answer = self.api.write(ACTION, &tagged(parameters, tags)).await?;
        let made = answer.list("LoadBalancers").next().map(balancer);
        made.ok_or(ApiError::Incomplete { action: ACTION, what: "LoadBalancers" })
    }

    pub(crate) async fn delete_balancer(&self, arn: &str) -> Result<(), ApiError> {
        self.api.write("DeleteLoadBalancer", &Parameters::new().with("LoadBalancerArn", arn)).await.map(drop)
    }

    pub(crate) async fn tags(&self, arns: &[&str]) -> Result<Tags, ApiError> {
        let mut all = Tags::new();
        for arns in arns.chunks(MOST_TAGGED) {
            let parameters = Parameters::new().list("ResourceArns.member", arns);
            let answer = self.api.read("DescribeTags", &parameters).await?;
            for thing in answer.list("TagDescriptions") {
                let tag = |tag: &Element| (tag.text("Key").to_owned(), tag.text("Value").to_owned());
                all.insert(thing.text("ResourceArn").to_owned(), thing.list("Tags").map(tag).collect());
            }
        }
        Ok(all)
    }

    /// The target groups whose names begin like this, without their targets. There is no filter for that.
    pub(crate) async fn groups(&self, prefix: &str) -> Result<Vec<Group>, ApiError> {
        let parameters = Parameters::new().with("PageSize", PAGE);
        let pages = self.api.pages("DescribeTargetGroups", &parameters).await?;
        let all = pages.iter().flat_map(|page| page.list("TargetGroups"));
        Ok(all.filter(|item| item.text("TargetGroupName").starts_with(prefix)).map(group).collect())
    }

    /// The targets of a group, without those that it is taking leave of.
    pub(crate) async fn targets(&self, group: &str) -> Result<BTreeSet<Target>, ApiError> {
        let parameters = Parameters::new().with("TargetGroupArn", group);
        let answer = self.api.read("DescribeTargetHealth", &parameters).await?;
        let stays = |item: &&Element| item.text("TargetHealth/State") != "draining";
        Ok(answer.list("TargetHealthDescriptions").filter(stays).map(target).collect())
    }

    pub(crate) async fn is_sticky(&self, group: &str) -> Result<bool, ApiError> {
        let parameters = Parameters::new().with("TargetGroupArn", group);
        let answer = self.api.read("DescribeTargetGroupAttributes", &parameters).await?;
        let is_on = |item: &Element| item.text("Key") == "stickiness.enabled" && item.text("Value") == "true";
        Ok(answer.list("Attributes").any(is_on))
    }

    pub(crate) async fn set_sticky(&self, group: &str, is_sticky: bool) -> Result<(), ApiError> {
        let attributes =
            [("stickiness.enabled", is_sticky.to_string()), ("stickiness.type", "source_ip".to_owned())];
        let parameters = Parameters::new().with("TargetGroupArn", group);
        let parameters =
            pairs(parameters, "Attributes", attributes.iter().map(|(key, value)| (*key, &**value)));
        self.api.write("ModifyTargetGroupAttributes", &parameters).await.map(drop)
    }

    /// Makes a target group; its ARN.
    pub(crate) async fn create_group(
        &self,
        name: &str,
        protocol: Protocol,
        port: u16,
        health: &Health,
        vpc: &str,
        tags: &[(String, String)],
    ) -> Result<String, ApiError> {
        const ACTION: &str = "CreateTargetGroup";
        let parameters = Parameters::new()
            .with("Name", name)
            .with("Protocol", protocol.name())
            // Only a default: every target has its own.
            .with("Port", port)
            .with("VpcId", vpc)
            .with("TargetType", "instance");
        let answer = self.api.write(ACTION, &tagged(checked(parameters, health), tags)).await?;
        let arn = answer.list("TargetGroups").next().map(|item| item.text("TargetGroupArn").to_owned());
        arn.ok_or(ApiError::Incomplete { action: ACTION, what: "TargetGroups" })
    }

    pub(crate) async fn set_health(&self, group: &str, health: &Health) -> Result<(), ApiError> {
        let parameters = Parameters::new().with("TargetGroupArn", group);
        self.api.write("ModifyTargetGroup", &checked(parameters, health)).await.map(drop)
    }

    pub(crate) async fn delete_group(&self, group: &str) -> Result<(), ApiError> {
        self.api.write("DeleteTargetGroup", &Parameters::new().with("TargetGroupArn", group)).await.map(drop)
    }

    /// Registers targets; those that AWS refuses because their machines do not run are returned.
    pub(crate) async fn register(&self, group: &str, targets: &[Target]) -> Result<Vec<Target>, ApiError> {
        let mut refused = vec![];
        for targets in targets.chunks(MOST_TARGETS) {
            match self.change_targets("RegisterTargets", group, targets).await {
                // One that does not run must not keep the others out.
                Err(error) if error.code() == "InvalidTarget" => {
                    for target in targets {
                        match self
                            .change_targets("RegisterTargets", group, std::slice::from_ref(target))
                            .await
                        {
                            Err(error) if error.code() == "InvalidTarget" => refused.push(target.clone()),
                            result => result?,
                        }
                    }
                }
                result => result?,
            }
        }
        Ok(refused)
    }

    pub(crate) async fn deregister(&self, group: &str, targets: &[Target]) -> Result<(), ApiError> {
        for targets in targets.chunks(MOST_TARGETS) {
            match self.change_targets("DeregisterTargets", group, targets).await {
                // A machine that is gone is no target any more.
                Err(error) if error.code() == "InvalidTarget" => {}
                result => result?,
            }
        }
        Ok(())
    }

    async fn change_targets(
        &self,
        action: &'static str,
        group: &str,
        targets: &[Target],
    ) -> Result<(), ApiError> {
        let parameters = Parameters::new().with("TargetGroupArn", group);
        let parameters = targets.iter().zip(1..).fold(parameters, |all, (target, number)| {
            let name = format!("Targets.member.{number}");
            all.with(format!("{name}.Id"), &target.instance).with(format!("{name}.Port"), target.port)
        });
        self.api.write(action, &parameters).await.map(drop)
    }

    pub(crate) async fn listeners(&self, balancer: &str) -> Result<Vec<Listener>, ApiError> {
        let parameters = Parameters::new().with("LoadBalancerArn", balancer).with("PageSize", PAGE);
        let pages = self.api.pages("DescribeListeners", &parameters).await?;
        Ok(pages.iter().flat_map(|page| page.list("Listeners").map(listener)).collect())
    }

    pub(crate) async fn create_listener(
        &self,
        balancer: &str,
        (protocol, port): (Protocol, u16),
        group: &str,
        tags: &[(String, String)],
    ) -> Result<(), ApiError> {
        let parameters = Parameters::new()
            .with("LoadBalancerArn", balancer)
            .with("Protocol", protocol.name())
            .with("Port", port);
        self.api.write("CreateListener", &tagged(forwarding(parameters, group), tags)).await.map(drop)
    }

    pub(crate) async fn modify_listener(&self, listener: &str, group: &str) -> Result<(), ApiError> {
        let parameters = Parameters::new().with("ListenerArn", listener);
        self.api.write("ModifyListener", &forwarding(parameters, group)).await.map(drop)
    }

    pub(crate) async fn delete_listener(&self, listener: &str) -> Result<(), ApiError> {
        match self.api.write("DeleteListener", &Parameters::new().with("ListenerArn", listener)).await {
            Err(error) if error.code() == "ListenerNotFound" => Ok(()),
            result => result.map(drop),
        }
    }
}

/// Reads an answer in all the ways in which we read one, for fuzz targets.
pub(crate) fn read(answer: &Element) {
    answer.list("LoadBalancers").for_each(|item| drop(balancer(item)));
    answer.list("TargetGroups").for_each(|item| drop(group(item)));
    answer.list("Listeners").for_each(|item| drop(listener(item)));
    answer.list("TargetHealthDescriptions").for_each(|item| drop(target(item)));
}

fn target(item: &Element) -> Target {
    Target {
        instance: item.text("Target/Id").into(),
        port: item.text("Target/Port").parse().unwrap_or_default(),
    }
}

fn balancer(item: &Element) -> Balancer {
    let text = |path: &str| item.text(path).to_owned();
    Balancer {
        arn: text("LoadBalancerArn"),
        host: text("DNSName").into(),
        scheme: text("Scheme"),
        state: text("State/Code"),
        reason: text("State/Reason"),
    }
}

fn group(item: &Element) -> Group {
    let port = item.text("HealthCheckPort").parse().ok();
    let is_http = item.text("HealthCheckProtocol") == "HTTP";
    Group {
        arn: item.text("TargetGroupArn").to_owned(),
        name: item.text("TargetGroupName").into(),
        health: port
            .filter(|_| is_http)
            .map(|port| Health { port, path: item.text("HealthCheckPath").into() }),
        is_sticky: false,
        targets: BTreeSet::new(),
    }
}

fn listener(item: &Element) -> Listener {
    let group = item.list("DefaultActions").next().map(|action| match action.text("TargetGroupArn") {
        "" => action
            .list("ForwardConfig/TargetGroups")
            .next()
            .map_or_else(String::new, |group| group.text("TargetGroupArn").to_owned()),
        arn => arn.to_owned(),
    });
    Listener {
        arn: item.text("ListenerArn").to_owned(),
        port: item.text("Port").parse().unwrap_or_default(),
        protocol: Protocol::named(item.text("Protocol")),
        group: group.unwrap_or_default(),
    }
}

fn forwarding(parameters: Parameters, group: &str) -> Parameters {
    parameters
        .with("DefaultActions.member.1.Type", "forward")
        .with("DefaultActions.member.1.TargetGroupArn", group)
}

fn checked(parameters: Parameters, health: &Health) -> Parameters {
    parameters
        .with("HealthCheckProtocol", "HTTP")
        .with("HealthCheckPort", health.port)
        .with("HealthCheckPath", &health.path)
        .with("HealthCheckIntervalSeconds", 10)
        .with("HealthCheckTimeoutSeconds", 6)
        .with("HealthyThresholdCount", 2)
        .with("UnhealthyThresholdCount", 2)
}

fn tagged(parameters: Parameters, tags: &[(String, String)]) -> Parameters {
    pairs(parameters, "Tags", tags.iter().map(|(key, value)| (&**key, &**value)))
}

fn pairs<'a>(
    parameters: Parameters,
    name: &str,
    pairs: impl Iterator<Item = (&'a str, &'a str)>,
) -> Parameters {
    pairs.zip(1..).fold(parameters, |all, ((key, value), number)| {
        let name = format!("{name}.member.{number}");
        all.with(format!("{name}.Key"), key).with(format!("{name}.Value"), value)
    })
}
