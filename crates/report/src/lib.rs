//! Plain views.
