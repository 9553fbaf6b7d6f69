// Package guest makes the data by which a member's guest configures itself: guestinfo for cloud-init, in extraConfig, or a customization
// specification of vCenter. It promises that user data is never printed. It has no lock.
package guest
