//! Snapshot files: the content of a store at one revision, with its history.

use std::io;

use super::disk::{Disk, write_all};
use super::entry;
use super::frame::{FrameBuffer, preamble};
use super::recover::PARTIAL;
use crate::store::Image;

/// The payload of a frame of a snapshot is about this long.
const FRAME: usize = 1 << 20;

/// Writes an image to a file. The file appears when it is complete and on stable storage. Returns `false`, and leaves no
/// file, if `is_cancelled` returns true before.
pub(super) fn write(
    disk: &dyn Disk,
    name: &str,
    image: &Image,
    bound: u64,
    is_cancelled: impl Fn() -> bool,
) -> io::Result<bool> {
    let partial = format!("{name}{PARTIAL}");
    let written = write_frames(disk, &partial, image, bound, is_cancelled);
    match written {
        Ok(true) => disk.rename(&partial, name).map(|()| true),
        other => {
            // The first error is returned.
            let _ = disk.remove(&partial);
            other
        }
    }
}

fn write_frames(
    disk: &dyn Disk,
    name: &str,
    image: &Image,
    bound: u64,
    is_cancelled: impl Fn() -> bool,
) -> io::Result<bool> {
    let mut file = disk.append(name)?;
    write_all(&mut *file, &preamble())?;
    let mut frame = FrameBuffer::new();
    entry::reset(frame.payload(), image.revision, image.compacted);
    entry::reserve(frame.payload(), bound);
    for (after, before) in image.lost.ranges() {
        entry::lost(frame.payload(), *after, *before);
    }
    for (name, table) in &*image.tables {
        entry::table(frame.payload(), name, table.ring.floor(), table.ring.evicted());
        let objects = table.objects.iter().filter_map(|(key, chain)| Some((key, chain.oldest()?)));
        for (key, record) in objects.filter(|(_, record)| !table.ring.contains(record.revision)) {
            entry::object(frame.payload(), name, key, record);
            if frame.len() >= FRAME {
                write_all(&mut *file, frame.finish())?;
                frame.clear();
                if is_cancelled() {
                    return Ok(false);
                }
            }
        }
        for event in table.ring.events() {
            match &event.current {
                Some(record) => entry::put(frame.payload(), name, &event.key, record),
                None => entry::delete(frame.payload(), name, &event.key, event.revision),
            }
            if frame.len() >= FRAME {
                write_all(&mut *file, frame.finish())?;
                frame.clear();
            }
        }
    }
    write_all(&mut *file, frame.finish())?;
    file.sync()?;
    Ok(true)
}
