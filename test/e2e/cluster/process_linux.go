package cluster

import "syscall"

// endsWithParent makes the kernel kill the process when the test ends, in whatever way.
func endsWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
