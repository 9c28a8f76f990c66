//! Machines in the file, and their management controllers.

use super::*;

#[tokio::test]
async fn only_a_machine_that_was_in_the_inventory_can_be_gone() {
    let (file, config, _cloud) = opened(Arc::default(), FILE);
    let inventory = Inventory { file: config, controllers: Arc::new(Controllers::new(&Metrics::default())) };
    #[rustfmt::skip]
    let table = [
        ("n1", "",                 Ok(true)),
        ("n1", "linux://n1",       Ok(true)),
        ("x",  "linux://serial-2", Ok(true)),
        ("n2", "linux://n2",       Ok(false)),
        ("n9", "linux://n9",       Ok(false)),
        ("n9", "",                 Err("there is no machine for Node \"n9\"")),
        ("n1", "aws:///i-1",       Err("there is no machine for Node \"n1\" (provider ID \"aws:///i-1\")")),
    ];
    for (name, id, want) in table {
        let exists = inventory.exists(&node(name, id)).await.map_err(|error| error.to_string());
        match (&exists, want) {
            (Ok(exists), Ok(want)) => assert_eq!(*exists, want, "{name} {id}"),
            (Err(error), Err(want)) => assert!(error.starts_with(want), "{name} {id}: {error}"),
            _ => panic!("{name} {id}: {exists:?}"),
        }
    }
    // A file that cannot be read takes no machine away.
    std::fs::write(file.path(), "machines: [").unwrap();
    assert!(inventory.exists(&node("n1", "linux://n1")).await.unwrap());
    std::fs::remove_file(file.path()).unwrap();
    assert!(inventory.exists(&node("n1", "linux://n1")).await.unwrap());
}

/// The answers of a server, by path.
type Answers = &'static [(&'static str, &'static str)];

/// A management controller; the address.
async fn management(answers: Answers) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = vec![0; 4096];
            let length = stream.read(&mut request).await.unwrap();
            let request = String::from_utf8_lossy(&request[..length]).into_owned();
            let path = request.split(' ').nth(1).unwrap_or_default();
            let answer = answers.iter().find(|(known, _)| *known == path).map(|(_, body)| *body);
            // admin:secret
            let (status, body) = match answer {
                _ if !request.contains("authorization: Basic YWRtaW46c2VjcmV0\r\n") => {
                    ("401 Unauthorized", "")
                }
                Some(body) => ("200 OK", body),
                None => ("404 Not Found", ""),
            };
            let length = body.len();
            let text =
                format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}");
            stream.write_all(text.as_bytes()).await.unwrap();
        }
    });
    address
}

#[tokio::test]
async fn the_management_controller_knows_whether_a_machine_is_off() {
    const SYSTEMS: &str = "/redfish/v1/Systems";
    const ONE: (&str, &str) = (SYSTEMS, r#"{"Members": [{"@odata.id": "/redfish/v1/Systems/1"}]}"#);
    #[rustfmt::skip]
    let table: [(&str, Answers, Result<bool, &str>); 7] = [
        ("",     &[ONE, ("/redfish/v1/Systems/1", r#"{"PowerState": "On"}"#)],         Ok(false)),
        ("",     &[ONE, ("/redfish/v1/Systems/1", r#"{"PowerState": "Off"}"#)],        Ok(true)),
        ("",     &[ONE, ("/redfish/v1/Systems/1", r#"{"PowerState": "PoweringOn"}"#)], Ok(false)),
        ("b/4",  &[("/redfish/v1/Systems/b%2F4", r#"{"PowerState": "Off"}"#)],         Ok(true)),
        ("9",    &[ONE],                                                               Err("/redfish/v1/Systems/9: the server answers 404 Not Found")),
        ("",     &[ONE, ("/redfish/v1/Systems/1", "{}")],                              Err("/redfish/v1/Systems/1 has no PowerState")),
        ("",     &[(SYSTEMS, r#"{"Members": [{"@odata.id": "/a"}, {"@odata.id": "/b"}]}"#)],
            Err("its management controller has the systems [/a, /b]; name one of them with `system`")),
    ];
    let password = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(password.path(), "secret\n").unwrap();
    for (system, answers, want) in table {
        let address = management(answers).await;
        let password = password.path().display();
        let redfish =
            format!("{{address: '{address}', system: '{system}', user: admin, passwordFile: {password}}}");
        let text = format!(
            "machines:\n- {{name: a, redfish: {redfish}}}\n- {{name: b, state: stopped, redfish: {redfish}}}\n"
        );
        let (_file, _config, cloud) = opened(Arc::default(), &text);
        let world = |node: Node| World { stopped: vec![node], ..World::new(cloud.clone()) };
        let report = conformance::check(&world(node("a", ""))).await.to_string();
        match want {
            Ok(true) => assert!(!report.contains("it counts as running"), "{system}: {report}"),
            Ok(false) => assert!(report.contains("it counts as running"), "{system}: {report}"),
            Err(error) => assert!(report.contains(error), "{system}: {report}"),
        }
        // What the file says needs no answer.
        let report = conformance::check(&world(node("b", ""))).await;
        assert!(report.is_passed(), "{report}");
    }
}

#[tokio::test]
async fn a_password_file_that_is_missing_is_named_at_the_start() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let redfish = "{address: 'https://10.0.1.11', user: admin, passwordFile: /no/such/file}";
    std::fs::write(file.path(), format!("machines: [{{name: a, redfish: {redfish}}}]")).unwrap();
    let error = open(Opening::standalone(NAME, Some(file.path()))).await.unwrap_err().to_string();
    assert!(
        error.starts_with("machine \"a\": cannot read the secret in /no/such/file: No such file"),
        "{error}"
    );
}
