/** A shop's database in the form of tau2-bench's retail domain. A task's changes overlay data shared by all tasks. */

export interface Address {
  address1: string;
  address2: string;
  city: string;
  state: string;
  country: string;
  zip: string;
}

interface PaymentMethod {
  source: string;
  id: string;
  /** Only for gift cards. */
  balance?: number;
}

export interface Item {
  name: string;
  product_id: string;
  item_id: string;
  price: number;
  options: Record<string, string>;
}

interface Variant {
  item_id: string;
  options: Record<string, string>;
  available: boolean;
  price: number;
}

interface Product {
  name: string;
  product_id: string;
  variants: Record<string, Variant>;
}

export interface User {
  user_id: string;
  name: { first_name: string; last_name: string };
  address: Address;
  email: string;
  payment_methods: Record<string, PaymentMethod>;
  orders: string[];
}

export interface Order {
  order_id: string;
  user_id: string;
  address: Address;
  items: Item[];
  status: string;
  payment_history: { transaction_type: 'payment' | 'refund'; amount: number; payment_method_id: string }[];
  [more: string]: unknown;
}

export interface ShopData {
  products: Record<string, Product>;
  users: Record<string, User>;
  orders: Record<string, Order>;
}

/** Changed users and orders, by id. */
export interface Changes {
  users: Record<string, User>;
  orders: Record<string, Order>;
}

export interface Shop {
  readonly data: ShopData;
  readonly changes: Changes;
}

/** A tool's refusal with its reason: nothing has changed. */
export class Refusal extends Error {}

/** A separate database with the initial data. */
export function openShop(data: ShopData): Shop {
  return { data, changes: { users: {}, orders: {} } };
}

export function findUser({ data, changes }: Shop, id: string): User {
  return changes.users[id] ?? data.users[id] ?? refuse('there is no such user');
}

export function findOrder({ data, changes }: Shop, id: string): Order {
  return changes.orders[id] ?? data.orders[id] ?? refuse('there is no such order');
}

export function findVariant({ data }: Shop, productId: string, itemId: string): Variant {
  return data.products[productId]?.variants[itemId] ?? refuse('there is no such variant of the product');
}

export function findPayment(shop: Shop, userId: string, id: string): PaymentMethod {
  return findUser(shop, userId).payment_methods[id] ?? refuse('the user has no such payment method');
}

/** Replaces the user with the same id. */
export function putUser({ changes }: Shop, user: User): User {
  changes.users[user.user_id] = user;
  return user;
}

/** Replaces the order with the same id. */
export function putOrder({ changes }: Shop, order: Order): Order {
  changes.orders[order.order_id] = order;
  return order;
}

/** Changes the balance of a gift card; other payment methods have none. */
export function addToBalance(shop: Shop, userId: string, { id, amount }: { id: string; amount: number }): void {
  const method = findPayment(shop, userId, id);
  if (method.source !== 'gift_card') return;
  const user = findUser(shop, userId);
  const paid = { ...method, balance: cents((method.balance ?? 0) + amount) };
  putUser(shop, { ...user, payment_methods: { ...user.payment_methods, [id]: paid } });
}

/** Throws if a gift card does not cover the amount. */
export function checkCovers(method: PaymentMethod, amount: number): void {
  if (method.source === 'gift_card' && (method.balance ?? 0) < amount) refuse('the gift card does not cover it');
}

/** Rounds to cents. */
export function cents(amount: number): number {
  return Number(amount.toFixed(2));
}

export function refuse(why: string): never {
  throw new Refusal(why);
}
