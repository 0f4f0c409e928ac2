use super::*;

#[test]
fn causes_are_printed_once() {
    let cause = io::Error::new(io::ErrorKind::NotFound, "no such file");
    assert_eq!(chain(&cause), "no such file");
    let telling =
        evenkeel_core::codec::ListDecoder::<()>::new(evenkeel_core::codec::Codec::Json, info()).finish().unwrap_err();
    assert_eq!(chain(&telling), "stream ended at byte 0 in the middle of the list");
    let mut decoder = evenkeel_core::codec::ListDecoder::<()>::new(evenkeel_core::codec::Codec::Json, info());
    decoder.push("[".into());
    let text = chain(&decoder.next_item().unwrap_err());
    assert_eq!(text, "malformed stream: JSON at byte 0: unexpected '[', expected a list");
}

fn info() -> std::sync::Arc<evenkeel_core::ResourceInfo> {
    std::sync::Arc::new(evenkeel_core::ResourceInfo::new("", "v1", "Pod", "pods", true))
}

#[test]
fn the_command_line_is_well_formed() {
    <Arguments as clap::CommandFactory>::command().debug_assert();
}
