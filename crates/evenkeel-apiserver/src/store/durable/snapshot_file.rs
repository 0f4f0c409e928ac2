//! Snapshot files: the content of a store at one revision, with its history.

use std::io;

use super::disk::{Disk, LogFile, write_all};
use super::entry;
use super::frame::{FrameBuffer, PREAMBLE, preamble};
use super::recover::PARTIAL;
use crate::store::Image;

/// The payload of a frame of a snapshot is about this long.
const FRAME: usize = 1 << 20;

/// The file is synced after every few frames: the log, which is synced at the same time, does not wait for all of them.
const FRAMES_PER_SYNC: u64 = 8;

/// Writes an image to a file. The file appears when it is complete and on stable storage. Returns its length; `None`, and
/// leaves no file, if `is_cancelled` returns true before.
pub(super) fn write(
    disk: &dyn Disk,
    name: &str,
    image: &Image,
    bound: u64,
    is_cancelled: impl Fn() -> bool,
) -> io::Result<Option<u64>> {
    let partial = format!("{name}{PARTIAL}");
    let written = write_frames(disk, &partial, image, bound, is_cancelled);
    match written {
        Ok(Some(bytes)) => disk.rename(&partial, name).map(|()| Some(bytes)),
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
) -> io::Result<Option<u64>> {
    let mut file = disk.append(name)?;
    write_all(&mut *file, &preamble())?;
    let (mut bytes, mut frames) = (PREAMBLE as u64, 0);
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
                bytes += write_frame(&mut *file, &mut frame)?;
                frames += 1;
                if frames % FRAMES_PER_SYNC == 0 {
                    file.sync()?;
                }
                if is_cancelled() {
                    return Ok(None);
                }
            }
        }
        for event in table.ring.events() {
            match &event.current {
                Some(record) => entry::put(frame.payload(), name, &event.key, record),
                None => entry::delete(frame.payload(), name, &event.key, event.revision),
            }
            if frame.len() >= FRAME {
                bytes += write_frame(&mut *file, &mut frame)?;
            }
        }
    }
    bytes += write_frame(&mut *file, &mut frame)?;
    file.sync()?;
    Ok(Some(bytes))
}

/// Writes and empties a frame. Returns its length.
fn write_frame(file: &mut dyn LogFile, frame: &mut FrameBuffer) -> io::Result<u64> {
    let bytes = frame.finish();
    write_all(file, bytes)?;
    let length = bytes.len() as u64;
    frame.clear();
    Ok(length)
}
