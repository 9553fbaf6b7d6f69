package test

import (
	"sync"

	"codeconnect.vmworld.com/vmgroup/vsphere/stamp"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// stampTexts caches decoded stamps by their texts, because a test that watches a life decodes the same few stamps again and again.
var stampTexts struct {
	sync.Mutex
	read map[string]stamp.Stamp
}

const stampTextsMost = 1000

// stampOf returns the decoded stamp of a VM.
func stampOf(vm vcsim.VM) (stamp.Stamp, error) {
	text := vm.ExtraConfig[stamp.Key]
	stampTexts.Lock()
	defer stampTexts.Unlock()
	if decoded, known := stampTexts.read[text]; known {
		return decoded, nil
	}
	decoded, err := stamp.Decode(text)
	if err != nil {
		return decoded, err
	}
	if len(stampTexts.read) == 0 || len(stampTexts.read) >= stampTextsMost {
		stampTexts.read = make(map[string]stamp.Stamp)
	}
	stampTexts.read[text] = decoded
	return decoded, nil
}
