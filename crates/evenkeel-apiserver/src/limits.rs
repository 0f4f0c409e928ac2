//! The limits of kube-apiserver and etcd on the size of objects.

use evenkeel_core::Status;
use serde_json::Value;

/// The largest object that is stored, in bytes of JSON: the request limit of etcd (`--max-request-bytes`).
pub(crate) const MAX_OBJECT_BYTES: usize = 3 << 19;

/// Returns the error for an object above [`MAX_OBJECT_BYTES`].
pub(crate) fn object_too_large() -> Status {
    Status::failure(500, Default::default(), "etcdserver: request is too large")
}

/// Returns the length of the value as JSON.
pub(crate) fn json_size(value: &Value) -> usize {
    struct Count(usize);
    impl std::io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    // Neither a Value nor this writer fails; an unknown size would count as too large.
    match serde_json::to_writer(&mut count, value) {
        Ok(()) => count.0,
        Err(_) => usize::MAX,
    }
}
