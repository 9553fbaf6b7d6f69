package inventory

import (
	"slices"

	"codeconnect.vmworld.com/vmgroup/vsphere/stamp"
)

var (
	// lightPaths suffice to tell the owner of a VM, which is all that is kept of most VMs.
	lightPaths = []string{"name", "parent", "parentVApp", "config.template", "config.instanceUuid", stamp.Path,
		"runtime.connectionState"}
	fullPaths = append(slices.Clone(lightPaths), "config.changeVersion", "config.files.vmPathName", "summary.config.numVirtualDisks", "config.hardware.numCPU",
		"config.hardware.memoryMB", "config.hardware.numCoresPerSocket", "config.hardware.autoCoresPerSocket", "config.cpuHotAddEnabled", "config.memoryHotAddEnabled",
		"config.hotPlugMemoryLimit", "runtime.powerState", "runtime.bootTime", "runtime.host", "runtime.question", "guest.ipAddress", "guest.net", "guest.customizationInfo",
		"guest.toolsRunningStatus")
)
