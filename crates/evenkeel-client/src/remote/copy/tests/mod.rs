mod archives;
mod bridge;
mod hostile;
mod pack;
mod remote_path;
mod unpack;
