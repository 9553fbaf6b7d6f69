package cluster

import "syscall"

// endsWithParent has the kernel kill the process when the test ends, however that is.
func endsWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
