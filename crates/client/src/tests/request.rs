use super::*;

const PODS: ResourceType = ResourceType::new("", "v1", "pods", "Pod", true);
const DEPLOYMENTS: ResourceType = ResourceType::new("apps", "v1", "deployments", "Deployment", true);

#[test]
fn requests_have_a_readable_name() {
    let key = Key::new("n", "a");
    #[rustfmt::skip]
    let table = [
        (Request::object(Verb::Update, &DEPLOYMENTS, &key, Some("status")),    "update deployments.apps/status n/a"),
        (Request::object(Verb::Get, &PODS, &Key::cluster("a"), None),          "get pods a"),
        (Request::collection(Verb::Create, &PODS, Some("n")),                  "create pods in n"),
        (Request::collection(Verb::List, &PODS, None),                         "list pods"),
    ];
    for (request, want) in table {
        assert_eq!(request.to_string(), want);
    }
}

proptest::proptest! {
    #[test]
    fn no_name_and_no_parameter_leaves_its_place(namespace: String, name: String, value: String) {
        let request = Request::object(Verb::Get, &PODS, &Key::new(namespace, name), Some("status")).param("p", value.as_str());
        let http = request.to_http(&HeaderValue::from_static("x"), true).unwrap();
        assert!(http.uri().path().ends_with("/status"));
        let query: Vec<(String, String)> =
            form_urlencoded::parse(http.uri().query().unwrap().as_bytes()).into_owned().collect();
        assert_eq!(query, [("p".to_owned(), value)]);
    }
}
