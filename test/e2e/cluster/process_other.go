//go:build !linux

package cluster

import "syscall"

// endsWithParent: only Linux can tell a process of its parent's end. Elsewhere a test that is killed leaves its processes.
func endsWithParent() *syscall.SysProcAttr { return nil }
