package v1alpha1

// StandbyMember is a VM that is cloned and prepared like any member, and powered off until a member is missing.
type StandbyMember struct {
	// name of the member, <group>-<ordinal>.
	// +required
	Name string `json:"name"`
	// vmName is the VM's name in vCenter, if the VM was renamed.
	// +optional
	VMName string `json:"vmName,omitempty"`
	// ordinal is its number in the group.
	// +required
	Ordinal int32 `json:"ordinal"`
	// moRef is the VM's managed object reference, such as vm-42.
	// +required
	MoRef string `json:"moRef"`
	// instanceUUID is the VM's instanceUuid, which identifies it even when it comes back to vCenter with another moRef.
	// +optional
	InstanceUUID string `json:"instanceUUID,omitempty"`
	// vmPathName is the datastore path of the VM's .vmx file.
	// +optional
	VMPathName string `json:"vmPathName,omitempty"`
	// zone is the one of spec.placement.zones that it belongs to.
	// +optional
	Zone string `json:"zone,omitempty"`
	// host is the ESXi host that the VM is on.
	// +optional
	Host string `json:"host,omitempty"`
	// revision is a short hash of what the VM was cloned from.
	// +optional
	Revision string `json:"revision,omitempty"`
	// ready reports whether the standby member can be powered on now.
	// +required
	Ready bool `json:"ready"`
	// reason says in one word why the standby member is not ready.
	// +optional
	Reason string `json:"reason,omitempty"`
	// message says in a sentence why the standby member is not ready.
	// +optional
	Message string `json:"message,omitempty"`
}
