use super::*;
use crate::config::ServerUrl;

#[test]
fn cfg_011_program_version_system_and_processor() {
    assert_eq!(build("ctl", "1.2.3-rc.1", "linux", "x86_64"), "ctl/1.2.3 (linux/amd64) evenkeel/1.2.3");
    assert_eq!(build("ctl", "1.2.3", "macos", "aarch64"), "ctl/1.2.3 (darwin/arm64) evenkeel/1.2.3");
    assert_eq!(build("", "", "", ""), "unknown/unknown (unknown/unknown) evenkeel/unknown");
    assert_eq!(build("my ctl\n/é", "1", "linux", "riscv64"), "my_ctl___/1 (linux/riscv64) evenkeel/1");
    assert!(http::HeaderValue::from_str(&Config::default_user_agent()).is_ok());
}

#[test]
fn cfg_012_a_suffix_can_be_added() {
    let mut config = Config::new(ServerUrl::parse("https://h").unwrap());
    assert_eq!(config.user_agent, None);
    config.add_user_agent("leader-election");
    assert_eq!(config.user_agent, Some(format!("{}/leader-election", Config::default_user_agent())));
}
