package test

import (
	"sync"

	"codeconnect.vmworld.com/vmgroup/vsphere"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// stampTexts are the stamps that were read last, by their texts: whoever watches a life reads the same few again and again.
var stampTexts struct {
	sync.Mutex
	read map[string]vsphere.Stamp
}

const stampTextsMost = 1000

// stampOf is the stamp that a VM bears.
func stampOf(vm vcsim.VM) (vsphere.Stamp, error) {
	text := vm.ExtraConfig[vsphere.StampKey]
	stampTexts.Lock()
	defer stampTexts.Unlock()
	if stamp, known := stampTexts.read[text]; known {
		return stamp, nil
	}
	stamp, err := vsphere.DecodeStamp(text)
	if err != nil {
		return stamp, err
	}
	if len(stampTexts.read) == 0 || len(stampTexts.read) >= stampTextsMost {
		stampTexts.read = make(map[string]vsphere.Stamp)
	}
	stampTexts.read[text] = stamp
	return stamp, nil
}
