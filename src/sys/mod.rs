//! The only unsafe code: a few system calls with safe faces.
#![allow(unsafe_code)]
