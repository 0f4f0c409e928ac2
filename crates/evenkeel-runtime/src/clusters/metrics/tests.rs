use super::super::failure::ClusterFailure;
use super::*;
use tokio::time::Instant;

#[tokio::test(start_paused = true)]
async fn mcl_011_labels_are_escaped_and_rejected_clusters_have_no_series() {
    let rejected = ClusterStatus::rejected("never", ClusterFailure::new("no server", Instant::now()));
    let engaged = ClusterStatus {
        name: "a \"b\"\\\n".to_owned(),
        engaged_at: Some(Instant::now()),
        is_synced: true,
        rejected: None,
        ..rejected.clone()
    };
    let text = render(&[engaged, rejected]);
    let label = r#"{cluster="a \"b\"\\\n"}"#;
    assert!(text.contains(&format!("# TYPE cluster_synced gauge\ncluster_synced{label} 1\n")), "{text}");
    assert!(!text.contains("never") && !text.contains("cluster_queue_depth"), "{text}");
    assert_eq!(render(&[]), "");
}
