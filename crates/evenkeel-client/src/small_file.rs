//! Reads the small files that configurations name: certificates, keys, tokens.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use zeroize::Zeroizing;

/// Returns the content of a regular file of at most `limit` bytes. The memory is overwritten on drop.
///
/// Blocks the thread for as long as the file system takes.
pub(crate) fn read(path: &Path, limit: u64) -> io::Result<Zeroizing<Vec<u8>>> {
    let content = read_up_to(path, limit.saturating_add(1))?;
    if content.len() as u64 > limit {
        return refuse(format!("it is larger than {limit} bytes"));
    }
    Ok(content)
}

/// Returns the first `limit` bytes of a regular file. The memory is overwritten on drop.
///
/// Pipes and devices are rejected before they are opened: opening a pipe blocks until a writer opens it, and neither
/// could be read again.
pub(crate) fn read_up_to(path: &Path, limit: u64) -> io::Result<Zeroizing<Vec<u8>>> {
    if !std::fs::metadata(path)?.is_file() {
        return refuse("it is not a regular file".into());
    }
    let file = File::open(path)?;
    // The file may have been replaced since the check.
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return refuse("it is not a regular file".into());
    }
    // Allocated at full size, so that growing leaves no buffer with secrets behind.
    let room = usize::try_from(metadata.len().saturating_add(1).min(limit)).unwrap_or(0);
    let mut content = Zeroizing::new(Vec::with_capacity(room));
    file.take(limit).read_to_end(&mut content)?;
    Ok(content)
}

fn refuse<T>(problem: String) -> io::Result<T> {
    Err(io::Error::new(io::ErrorKind::InvalidData, problem))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::path::PathBuf;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// A directory that is removed after the test.
    pub(crate) struct Folder(PathBuf);

    impl Folder {
        pub(crate) fn new() -> Self {
            static COUNT: AtomicU64 = AtomicU64::new(0);
            let unique = format!("evenkeel-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
            let path = std::env::temp_dir().join(unique);
            std::fs::create_dir_all(&path).unwrap();
            Folder(path)
        }

        pub(crate) fn path(&self, name: &str) -> PathBuf {
            self.0.join(name)
        }

        /// Replaces the file atomically, as kubelet and cert-manager do.
        pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
            let (path, draft) = (self.path(name), self.path(".draft"));
            std::fs::write(&draft, content).unwrap();
            std::fs::rename(&draft, &path).unwrap();
            path
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_file_is_read_up_to_its_limit() {
        let folder = Folder::new();
        let path = folder.write("small", "12345");
        assert_eq!(read(&path, 5).unwrap().as_slice(), b"12345");
        assert_eq!(read(&path, 4).unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert_eq!(read(&folder.path("missing"), 5).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[cfg(unix)]
    #[test]
    fn a_path_that_is_no_regular_file_is_rejected() {
        let folder = Folder::new();
        assert_eq!(read(&folder.path(""), 5).unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert_eq!(read(Path::new("/dev/zero"), 5).unwrap_err().kind(), io::ErrorKind::InvalidData);
        let link = folder.path("link");
        std::os::unix::fs::symlink(folder.write("target", "1"), &link).unwrap();
        assert_eq!(read(&link, 5).unwrap().as_slice(), b"1", "mounted secrets are links");
    }
}
