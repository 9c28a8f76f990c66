use super::world::deployment;
use crate::deployment::limits::Limits;

#[test]
fn bounds_are_numbers_or_percentages() {
    #[rustfmt::skip]
    let table = [
        // deployment                                   most, least available
        ("replicas=10 surge=3 unavailable=2",           13, 8),
        ("replicas=10 surge=25% unavailable=25%",       13, 8),
        ("replicas=1 surge=25% unavailable=25%",         2, 1),
        ("replicas=2 surge=0% unavailable=1%",           2, 1), // both round to nothing: one may be missing
        ("replicas=1 surge=0% unavailable=1%",           1, 0),
        ("replicas=3 surge=0 unavailable=0",             3, 2),
        ("replicas=3 surge=0 unavailable=10",            3, 0), // no more than there are
        ("replicas=4 surge=200% unavailable=100%",      12, 0),
        ("replicas=0 surge=25% unavailable=25%",         0, 0),
        ("replicas=0 surge=2 unavailable=1",             2, 0),
        ("replicas=3 recreate",                          3, 3),
    ];
    for (text, most, least) in table {
        let limits = Limits::of(&deployment(text).spec).unwrap();
        assert_eq!((limits.most(), limits.least_available()), (most, least), "{text}");
    }
}

#[test]
fn invalid_bounds_are_errors() {
    let error = Limits::of(&deployment("surge=a-few").spec).unwrap_err();
    assert_eq!(error.to_string(), "maxSurge");
    let unknown: flyball_api::Deployment =
        serde_json::from_value(serde_json::json!({"spec": {"strategy": {"type": "Hope"}}})).unwrap();
    let error = Limits::of(&unknown.spec).unwrap_err().to_string();
    assert_eq!(error, "the strategy is \"Hope\"; RollingUpdate and Recreate are known");
}
