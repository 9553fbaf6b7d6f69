// This file finds which members have which addresses: static ones, by their stamps, and those that several guests report.

package planner

import (
	"slices"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// takenAddresses maps each static address to the ordinal of the member that has it.
type takenAddresses map[string]int32

// takenAddressesOf returns the addresses that VMs have according to their stamps: the ranges may have changed since they were made.
func takenAddressesOf(vms []plan.VM) takenAddresses {
	taken := takenAddresses{}
	for i := range vms {
		for _, address := range plan.AddressesIn(vms[i].Addresses) {
			taken[address] = vms[i].Ordinal
		}
	}
	return taken
}

// ByOther reports whether a member with another ordinal has one of these addresses.
func (t takenAddresses) ByOther(ordinal int32, text string) bool {
	return slices.ContainsFunc(plan.AddressesIn(text), func(address string) bool {
		by, taken := t[address]
		return taken && by != ordinal
	})
}
