use super::*;

#[test]
fn memory_counters_are_found_by_name() {
    let status = "Name:\tx\nVmHWM:\t  2048 kB\nVmRSS:\t  1024 kB\n";
    assert_eq!((kibibytes(status, "VmHWM").unwrap(), kibibytes(status, "VmRSS").unwrap()), (2048, 1024));
    assert!(kibibytes(status, "VmSwap").is_err());
}
