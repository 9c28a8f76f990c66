//! The query protocol: an action and its parameters go in as a form, XML comes out, in pages where it is long.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use flyball_cloud::kit::http::{Call, Http};
use http::HeaderValue;
use http::header::CONTENT_TYPE;

use crate::error::ApiError;
use crate::xml::Element;

const FORM: HeaderValue = HeaderValue::from_static("application/x-www-form-urlencoded; charset=utf-8");
/// The most pages of a list.
const MOST_PAGES: usize = 1000;

/// How one of AWS's APIs speaks the protocol.
#[derive(Debug)]
pub(crate) struct Dialect {
    /// Its name in signatures, in host names and in metrics.
    pub(crate) service: &'static str,
    version: &'static str,
    /// Where an answer has the token of the next page, and the parameter that it becomes.
    next: (&'static str, &'static str),
}

pub(crate) static EC2: Dialect =
    Dialect { service: "ec2", version: "2016-11-15", next: ("nextToken", "NextToken") };
pub(crate) static ELB: Dialect =
    Dialect { service: "elasticloadbalancing", version: "2015-12-01", next: ("NextMarker", "Marker") };
pub(crate) static STS: Dialect = Dialect { service: "sts", version: "2011-06-15", next: ("", "") };

/// The parameters of a call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Parameters(Vec<(String, String)>);

impl Parameters {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn with(mut self, name: impl Into<String>, value: impl ToString) -> Self {
        self.0.push((name.into(), value.to_string()));
        self
    }

    /// `name.1`, `name.2` and so on.
    pub(crate) fn list<T: ToString>(self, name: &str, values: impl IntoIterator<Item = T>) -> Self {
        let numbered = values.into_iter().zip(1..);
        numbered.fold(self, |all, (value, number)| all.with(format!("{name}.{number}"), value))
    }

    /// A filter of EC2: what has one of the values. They are numbered.
    pub(crate) fn filter<T: ToString>(
        self,
        number: usize,
        name: &str,
        values: impl IntoIterator<Item = T>,
    ) -> Self {
        let filter = format!("Filter.{number}");
        self.with(format!("{filter}.Name"), name).list(&format!("{filter}.Value"), values)
    }

    fn body(&self, action: &str, version: &str) -> String {
        let mut form = form_urlencoded::Serializer::new(String::new());
        form.append_pair("Action", action).append_pair("Version", version);
        form.extend_pairs(&self.0).finish()
    }
}

/// One of AWS's APIs.
#[derive(Debug, Clone)]
pub(crate) struct Api {
    http: Http,
    dialect: &'static Dialect,
    /// Set when this process has led and leads no more.
    is_over: Arc<AtomicBool>,
}

impl Api {
    pub(crate) fn new(http: Http, dialect: &'static Dialect, is_over: Arc<AtomicBool>) -> Self {
        Self { http, dialect, is_over }
    }

    /// A call that changes nothing.
    pub(crate) async fn read(
        &self,
        action: &'static str,
        parameters: &Parameters,
    ) -> Result<Element, ApiError> {
        self.call(action, parameters, Call::repeatable).await
    }

    /// A call that changes something. It is not sent again if AWS may have acted on it.
    pub(crate) async fn write(
        &self,
        action: &'static str,
        parameters: &Parameters,
    ) -> Result<Element, ApiError> {
        self.call(action, parameters, |call| call).await
    }

    /// All pages of a list.
    pub(crate) async fn pages(
        &self,
        action: &'static str,
        parameters: &Parameters,
    ) -> Result<Vec<Element>, ApiError> {
        let (element, parameter) = self.dialect.next;
        let mut pages = vec![self.read(action, parameters).await?];
        while let Some(token) = pages.last().map(|page| page.text(element)).filter(|token| !token.is_empty())
        {
            if pages.len() >= MOST_PAGES {
                return Err(ApiError::Endless { action });
            }
            let parameters = parameters.clone().with(parameter, token);
            pages.push(self.read(action, &parameters).await?);
        }
        Ok(pages)
    }

    async fn call(
        &self,
        action: &'static str,
        parameters: &Parameters,
        finish: fn(Call) -> Call,
    ) -> Result<Element, ApiError> {
        if self.is_over.load(Ordering::Relaxed) {
            return Err(ApiError::Over { action });
        }
        let body = parameters.body(action, self.dialect.version);
        let call = finish(Call::post(action, "/").header(CONTENT_TYPE, FORM).body(body));
        let reply = self.http.send(call).await.map_err(|error| ApiError::of(action, error))?;
        let root = Element::parse(&String::from_utf8_lossy(&reply.body))
            .map_err(|source| ApiError::Unreadable { action, source })?;
        // All but EC2 wrap the answer.
        Ok(root.at(&format!("{action}Result")).cloned().unwrap_or(root))
    }
}

#[cfg(test)]
mod tests {
    use flyball_cloud::CloudError;
    use flyball_runtime::Metrics;

    use super::*;
    use crate::tests::fake::serving;

    fn api(address: &str, dialect: &'static Dialect) -> Api {
        let http = Http::new(dialect.service, address, &Metrics::default()).unwrap();
        Api::new(http, dialect, Arc::default())
    }

    #[test]
    fn parameters_are_numbered_and_encoded() {
        let parameters = Parameters::new()
            .filter(1, "tag:a/b", ["x&y", "z"])
            .list("Names.member", ["one"])
            .with("MaxResults", 100);
        assert_eq!(
            parameters.body("DescribeX", "2016-11-15"),
            "Action=DescribeX&Version=2016-11-15&Filter.1.Name=tag%3Aa%2Fb&Filter.1.Value.1=x%26y&Filter.1.Value.2=z\
             &Names.member.1=one&MaxResults=100"
        );
    }

    #[tokio::test]
    async fn a_list_is_read_to_its_last_page() {
        let page = |id: &str, marker: &str| {
            format!(
                "200 OK|<R><DescribeXResult><Names><member>{id}</member></Names>{marker}</DescribeXResult></R>"
            )
        };
        let answers = [
            page("a", "<NextMarker>m/1</NextMarker>"),
            page("b", "<NextMarker>m2</NextMarker>"),
            page("c", ""),
        ];
        let server = serving(&answers).await;
        let parameters = Parameters::new().with("PageSize", 1);
        let pages = api(&server.address, &ELB).pages("DescribeX", &parameters).await.unwrap();
        assert_eq!(pages.len(), 3);
        assert_eq!(pages[2].list("Names").count(), 1);
        let seen = server.seen.lock().clone();
        assert!(seen[0].contains("\r\n\r\nAction=DescribeX&Version=2015-12-01&PageSize=1"), "{}", seen[0]);
        assert!(seen[0].to_lowercase().contains("content-type: application/x-www-form-urlencoded"));
        assert!(seen[1].ends_with("&PageSize=1&Marker=m%2F1") && seen[2].ends_with("&Marker=m2"), "{seen:?}");
    }

    #[tokio::test]
    async fn a_list_that_does_not_end_is_an_error() {
        let page = "200 OK|<R><nextToken>again</nextToken></R>".to_owned();
        let server = serving(&vec![page; MOST_PAGES + 1]).await;
        let error = api(&server.address, &EC2).pages("DescribeX", &Parameters::new()).await.unwrap_err();
        assert_eq!(error.to_string(), "DescribeX: the list does not end");
        assert_eq!(server.seen.lock().len(), MOST_PAGES);
    }

    #[tokio::test]
    async fn reads_are_sent_again_writes_are_not_and_throttling_asks_for_a_rest() {
        let busy = "503 Busy|<Response><Errors><Error><Code>Unavailable</Code></Error></Errors></Response>";
        let throttled =
            "400 Bad|<E><Error><Code>Throttling</Code><Message>Rate exceeded</Message></Error></E>";
        let server = serving(&[busy, "200 OK|<R/>", busy, throttled].map(str::to_owned)).await;
        let api = api(&server.address, &ELB);
        assert!(api.read("DescribeX", &Parameters::new()).await.is_ok());
        let error = api.write("DeleteX", &Parameters::new()).await.unwrap_err();
        assert_eq!((error.code(), server.seen.lock().len()), ("Unavailable", 3));
        let error = CloudError::from(api.read("DescribeX", &Parameters::new()).await.unwrap_err());
        assert_eq!(error.to_string(), "DescribeX: Throttling: Rate exceeded");
        assert!(error.retry_after().is_some());
    }

    #[tokio::test]
    async fn what_is_no_answer_is_an_error_and_nothing_is_asked_when_it_is_over() {
        let server = serving(&["200 OK|<html>".to_owned()]).await;
        let api = api(&server.address, &EC2);
        let error = api.read("DescribeX", &Parameters::new()).await.unwrap_err();
        assert_eq!(error.to_string(), "DescribeX: the answer is not the XML that it should be");
        api.is_over.store(true, Ordering::Relaxed);
        let error = api.read("DescribeX", &Parameters::new()).await.unwrap_err();
        assert_eq!(error.to_string(), "DescribeX: this process does not lead any more");
        assert_eq!(server.seen.lock().len(), 1);
    }
}
