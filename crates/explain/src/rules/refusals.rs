//! What the API server said when it refused to create a pod, in one line.

use crate::words::{between, one_line};

/// Why it was refused, and what helps.
pub(crate) fn digest(message: &str) -> (String, Option<String>) {
    quota(message)
        .or_else(|| quota_requires(message))
        .or_else(|| security(message))
        .or_else(|| webhook(message))
        .or_else(|| limits(message))
        .or_else(|| account(message))
        .unwrap_or_else(|| (one_line(message, 260), None))
}

fn quota(message: &str) -> Option<(String, Option<String>)> {
    let rest = message.split_once("exceeded quota: ")?.1;
    let name = rest.split(',').next()?.trim();
    let part = |word: &str, end: &str| between(rest, word, end).map(str::trim);
    let requested = part("requested: ", ", used:")?;
    let used = part("used: ", ", limited:")?;
    let limited = rest.split_once("limited: ")?.1.trim();
    let limited = limited.split_whitespace().next().unwrap_or(limited);
    let value = |list: &str, resource: &str| {
        let pairs = list.split(',').filter_map(|pair| pair.trim().split_once('='));
        pairs
            .filter(|(name, _)| *name == resource)
            .map(|(_, value)| value.to_owned())
            .next()
            .unwrap_or_default()
    };
    let texts = limited.split(',').filter_map(|pair| pair.split_once('=')).map(|(resource, limit)| {
        let (used, more) = (value(used, resource), value(requested, resource));
        match resource {
            "pods" | "count/pods" => format!("allows {limit} pods, {used} used"),
            _ => format!("allows {resource} {limit}, {used} used, {more} more needed"),
        }
    });
    let text = format!("quota {name} {}", texts.collect::<Vec<_>>().join("; "));
    Some((text, Some(format!("raise the quota (kubectl edit quota {name}), or free some of it"))))
}

fn quota_requires(message: &str) -> Option<(String, Option<String>)> {
    let rest = message.split_once("failed quota: ")?.1;
    let (name, what) = rest.split_once(": must specify ")?;
    let what = one_line(what, 160);
    let advice = "set these resources on every container, or add a LimitRange with defaults";
    Some((format!("quota {name} requires every container to set {what}"), Some(advice.to_owned())))
}

fn security(message: &str) -> Option<(String, Option<String>)> {
    let rest = message.split_once("violates PodSecurity \"")?.1;
    let (level, why) = rest.split_once("\": ")?;
    let text =
        format!("the namespace enforces PodSecurity {level}, which forbids the pod: {}", one_line(why, 300));
    Some((text, Some("correct the pod template's securityContext, or the namespace's label".to_owned())))
}

fn webhook(message: &str) -> Option<(String, Option<String>)> {
    if let Some((name, why)) = message
        .split_once("admission webhook \"")
        .and_then(|(_, rest)| rest.split_once("\" denied the request"))
    {
        let why = one_line(why.trim_start_matches(':').trim(), 260);
        return Some((format!("admission webhook {name} denies it: {why}"), None));
    }
    if let Some((name, why)) =
        message.split_once("failed calling webhook \"").and_then(|(_, rest)| rest.split_once("\": "))
    {
        let text = format!("admission webhook {name} does not answer: {}", one_line(why, 200));
        let advice = "repair the webhook's service, or set its failurePolicy to Ignore";
        return Some((text, Some(advice.to_owned())));
    }
    let rest = message.split_once("ValidatingAdmissionPolicy '")?.1;
    let (name, why) = rest.split_once('\'')?;
    let why = why.split_once("denied request: ").map_or(why, |(_, why)| why);
    Some((format!("admission policy {name} denies it: {}", one_line(why, 260)), None))
}

fn limits(message: &str) -> Option<(String, Option<String>)> {
    let at = message.find("maximum ").or_else(|| message.find("minimum "))?;
    let what = &message[at..];
    (what.contains(" usage per ") || what.contains(" limit to request ratio per ")).then(|| {
        let text = format!(
            "a LimitRange of the namespace forbids it: {}",
            one_line(what.trim_end_matches(']'), 200)
        );
        (
            text,
            Some("change the container's resources, or the LimitRange (kubectl get limitranges)".to_owned()),
        )
    })
}

fn account(message: &str) -> Option<(String, Option<String>)> {
    if let Some(account) = between(message, "error looking up service account ", ":") {
        let text = format!("service account {account} does not exist");
        return Some((text, Some("create it, or correct serviceAccountName".to_owned())));
    }
    if let Some(class) = between(message, "no PriorityClass with name ", " was found") {
        return Some((
            format!("PriorityClass {class} does not exist"),
            Some("create it, or correct priorityClassName".to_owned()),
        ));
    }
    let namespace =
        between(message, "unable to create new content in namespace ", " because it is being terminated")?;
    Some((format!("namespace {namespace} is being deleted: nothing new can be created in it"), None))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_said_in_one_line() {
        #[rustfmt::skip]
        let table = [
            ("pods \"a\" is forbidden: exceeded quota: team, requested: pods=1, used: pods=4, limited: pods=4",
             "quota team allows 4 pods, 4 used"),
            ("pods \"a\" is forbidden: exceeded quota: q, requested: limits.cpu=2,requests.cpu=1, used: limits.cpu=3,requests.cpu=1, limited: limits.cpu=4",
             "quota q allows limits.cpu 4, 3 used, 2 more needed"),
            ("pods \"a\" is forbidden: failed quota: q: must specify limits.cpu for: web",
             "quota q requires every container to set limits.cpu for: web"),
            ("pods \"a\" is forbidden: violates PodSecurity \"restricted:latest\": allowPrivilegeEscalation != false",
             "the namespace enforces PodSecurity restricted:latest, which forbids the pod: allowPrivilegeEscalation != false"),
            ("admission webhook \"v.example.com\" denied the request: no team label",
             "admission webhook v.example.com denies it: no team label"),
            ("Internal error occurred: failed calling webhook \"v.example.com\": failed to call webhook: Post \"https://x\": connect: connection refused",
             "admission webhook v.example.com does not answer: failed to call webhook: Post \"https://x\": connect: connection refused"),
            ("pods \"a\" is forbidden: maximum memory usage per Container is 1Gi, but limit is 2Gi",
             "a LimitRange of the namespace forbids it: maximum memory usage per Container is 1Gi, but limit is 2Gi"),
            ("pods \"a-\" is forbidden: error looking up service account default/robot: serviceaccount \"robot\" not found",
             "service account default/robot does not exist"),
            ("something else", "something else"),
        ];
        for (message, want) in table {
            assert_eq!(digest(message).0, want);
        }
    }
}
