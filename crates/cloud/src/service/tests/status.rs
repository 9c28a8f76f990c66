use serde_json::{Value, json};

use super::service;
use crate::service::status::status_patch;

#[test]
fn the_status_is_written_only_if_it_changes() {
    let ip = |ip: &str| json!([{"ip": ip}]);
    #[rustfmt::skip]
    let table = [
        // case                                  current                                   wanted                written
        ("nothing, still",                       json!([]),                                json!([]),            None),
        ("an address",                           json!([]),                                ip("1.2.3.4"),        Some(ip("1.2.3.4"))),
        ("the same",                             ip("1.2.3.4"),                            ip("1.2.3.4"),        None),
        ("the same, as the server completed it", json!([{"ip": "1.2.3.4", "ipMode": "VIP"}]), ip("1.2.3.4"),     None),
        ("another mode",                         json!([{"ip": "1.2.3.4", "ipMode": "VIP"}]), json!([{"ip": "1.2.3.4", "ipMode": "Proxy"}]),
                                                                                                                 Some(json!([{"ip": "1.2.3.4", "ipMode": "Proxy"}]))),
        ("another address",                      ip("1.2.3.4"),                            ip("5.6.7.8"),        Some(ip("5.6.7.8"))),
        ("a name",                               ip("1.2.3.4"),                            json!([{"hostname": "lb.example.com"}]), Some(json!([{"hostname": "lb.example.com"}]))),
        ("nothing any more",                     ip("1.2.3.4"),                            json!([]),            Some(Value::Null)),
    ];
    for (case, says, should, want) in table {
        let service = service(json!({"status": {"loadBalancer": {"ingress": says}}}));
        let wanted = serde_json::from_value(json!({"ingress": should})).unwrap();
        let want = want.map(
            |ingress| json!({"metadata": {"uid": "u"}, "status": {"loadBalancer": {"ingress": ingress}}}),
        );
        assert_eq!(status_patch(&service, &wanted), want, "{case}");
    }
}
